#pragma once
// The tables of trace.sqlite, and the indexes made once they are full.
//
// Purpose: one list of statements; column order is the order in which rows are inserted.
// Thread rule: constants. Failure rule: none.
#include <array>
#include <string_view>
#include <utility>

namespace stepagent::writers {

// The version of the export schema whose columns these are.
inline constexpr std::string_view kSchemaMajor = "3", kSchemaMinor = "24", kSchemaMicro = "14";

inline constexpr const char* kSqliteAlways =
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"
    "CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);"
    "CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);"
    "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT,"
    " systemClockNs INTEGER);"
    "CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER NOT NULL, duration INTEGER NOT NULL,"
    " startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);"
    "CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);"
    "CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);"
    "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT,"
    " totalMemory INTEGER, memoryBandwidth INTEGER, smCount INTEGER, uuid TEXT,"
    " computeMajor INTEGER, computeMinor INTEGER);"
    "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL,"
    " pid INTEGER NOT NULL, uuid TEXT, numMultiprocessors INTEGER);"
    "CREATE TABLE STEPAGENT_CYCLE (session TEXT, run TEXT, host TEXT, pid INTEGER,"
    " program TEXT, rank INTEGER, worldSize INTEGER, cycle INTEGER NOT NULL, complete INTEGER,"
    " ended TEXT, reason TEXT, start INTEGER, \"end\" INTEGER, baseUnixNs INTEGER,"
    " gpuStatus TEXT, gpuReason TEXT, graphLevel TEXT, stepSource TEXT);"
    "CREATE TABLE STEPAGENT_STEP (step INTEGER NOT NULL, start INTEGER NOT NULL, \"end\" INTEGER "
    "NOT"
    " NULL, processStep INTEGER, globalTid INTEGER, complete INTEGER,"
    " containsTracerStart INTEGER, partial INTEGER, launches INTEGER,"
    " kernels INTEGER, copies INTEGER, sets INTEGER);"
    "CREATE TABLE STEPAGENT_LOSS (kind TEXT NOT NULL, produced INTEGER, written INTEGER,"
    " dropped INTEGER, outOfWindow INTEGER, invalid INTEGER);"
    "CREATE TABLE STEPAGENT_NOTE (code TEXT NOT NULL, text TEXT);"
    "CREATE TABLE STEPAGENT_LABEL (name TEXT NOT NULL, value TEXT);"
    "CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"
    "CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"
    "CREATE TABLE ENUM_CUPTI_SYNC_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);"
    "CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);";

// Tables of events: made only where there are some. Readers expect absent ones.
inline constexpr const char* kKernelTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,"
    " deviceId INTEGER NOT NULL, contextId INTEGER, greenContextId INTEGER,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,"
    " demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,"
    " launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER,"
    " gridX INTEGER, gridY INTEGER, gridZ INTEGER,"
    " blockX INTEGER, blockY INTEGER, blockZ INTEGER,"
    " staticSharedMemory INTEGER, dynamicSharedMemory INTEGER,"
    " localMemoryPerThread INTEGER, localMemoryTotal INTEGER,"
    " gridId INTEGER, sharedMemoryExecuted INTEGER, graphNodeId INTEGER,"
    " sharedMemoryLimitConfig INTEGER, graphId INTEGER, clusterX INTEGER, clusterY INTEGER,"
    " clusterZ INTEGER)";
inline constexpr const char* kCopyTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,"
    " deviceId INTEGER NOT NULL, contextId INTEGER, greenContextId INTEGER,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,"
    " bytes INTEGER, copyKind INTEGER NOT NULL, deprecatedSrcId INTEGER,"
    " srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER,"
    " dstDeviceId INTEGER, dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER,"
    " virtualAddress INTEGER, copyCount INTEGER)";
inline constexpr const char* kSetTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,"
    " deviceId INTEGER NOT NULL, contextId INTEGER, greenContextId INTEGER,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,"
    " value INTEGER, bytes INTEGER, graphNodeId INTEGER, memKind INTEGER)";
inline constexpr const char* kGraphTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, \"end\" INTEGER NOT "
    "NULL,"
    " deviceId INTEGER NOT NULL, graphId INTEGER NOT NULL, contextId INTEGER,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER)";
inline constexpr const char* kRuntimeTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,"
    " eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER,"
    " nameId INTEGER NOT NULL, returnValue INTEGER, callchainId INTEGER)";
// The last two columns are ours. `originalIP` is the address within the module's file.
inline constexpr const char* kCallchainTable =
    "CREATE TABLE CUDA_CALLCHAINS (id INTEGER NOT NULL, symbol INTEGER, module INTEGER,"
    " unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER NOT NULL, sourceFile INTEGER,"
    " sourceLine INTEGER, PRIMARY KEY (id, stackDepth))";
inline constexpr const char* kSyncTable =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, \"end\" INTEGER NOT"
    " NULL, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER,"
    " streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,"
    " deprecatedSyncType INTEGER, syncType INTEGER NOT NULL, eventId INTEGER NOT NULL,"
    " eventSyncId INTEGER)";
inline constexpr const char* kNvtxTable =
    "CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, \"end\" INTEGER, eventType INTEGER NOT NULL,"
    " rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,"
    " endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,"
    " int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER,"
    " floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT)";
inline constexpr const char* kOverheadTable =
    "CREATE TABLE PROFILER_OVERHEAD (start INTEGER NOT NULL, \"end\" INTEGER NOT NULL,"
    " globalTid INTEGER, nameId INTEGER NOT NULL)";
inline constexpr const char* kMemoryTable =
    "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER NOT NULL, globalPid INTEGER NOT"
    " NULL, deviceId INTEGER NOT NULL, address INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " memKind INTEGER NOT NULL, memoryOperationType INTEGER NOT NULL, correlationId INTEGER)";

// Table and column.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kSqliteIndexes = {{
    {"CUPTI_ACTIVITY_KIND_KERNEL", "correlationId"},
    {"CUPTI_ACTIVITY_KIND_KERNEL", "start"},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "correlationId"},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", "start"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", "correlationId"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", "start"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", "correlationId"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", "start"},
    {"NVTX_EVENTS", "start"},
}};

}  // namespace stepagent::writers
