#pragma once
// Protobuf bytes, written by hand, and the field numbers of Perfetto's schema that we use.
//
// Purpose: no generated code and no run-time library between a cycle and a trace of a million
// kernels. Nested messages are written in place: one byte is kept for the length and widened where
// a message turns out to be longer than 127 bytes.
// Thread rule: one object, one thread. Failure rule: grows as needed; memory is the only limit.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace stepagent::writers {

class ProtoBuffer {
 public:
  ProtoBuffer() : bytes_(size_t{1} << 16) {}

  void Uint(uint32_t field, uint64_t value) {
    Reserve(kNumberBytes);
    Varint(uint64_t{field} << 3);
    Varint(value);
  }
  // Negative numbers of the int types are ten bytes, as the format has it.
  void Int(uint32_t field, int64_t value) { Uint(field, static_cast<uint64_t>(value)); }
  void Double(uint32_t field, double value) {
    Reserve(kNumberBytes);
    Varint(uint64_t{field} << 3 | 1);
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int shift = 0; shift < 64; shift += 8) bytes_[at_++] = static_cast<char>(bits >> shift);
  }
  void Text(uint32_t field, std::string_view text) {
    Reserve(kNumberBytes + text.size());
    Varint(uint64_t{field} << 3 | 2);
    Varint(text.size());
    Copy(text);
  }
  // Fields that were encoded before.
  void Raw(std::string_view fields) {
    Reserve(fields.size());
    Copy(fields);
  }
  // Begins a nested message; End takes what Begin returned.
  [[nodiscard]] size_t Begin(uint32_t field) {
    Reserve(kNumberBytes);
    Varint(uint64_t{field} << 3 | 2);
    bytes_[at_++] = 0;
    return at_;
  }
  void End(size_t begin) {
    const size_t length = at_ - begin;
    size_t more = 0;
    for (size_t rest = length >> 7; rest != 0; rest >>= 7) ++more;
    if (more > 0) {
      Reserve(more);
      std::memmove(&bytes_[begin + more], &bytes_[begin], length);
    }
    at_ = begin - 1;
    Varint(length);
    at_ += length;
  }
  // For messages whose size is known before they are written: room for at least `bytes`, which
  // Commit ends where `end` is.
  [[nodiscard]] char* Room(size_t bytes) {
    Reserve(bytes);
    return &bytes_[at_];
  }
  void Commit(const char* end) { at_ = static_cast<size_t>(end - bytes_.data()); }
  [[nodiscard]] static size_t VarintBytes(uint64_t value) {
    return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
  }
  [[nodiscard]] static char* PutVarint(char* at, uint64_t value) {
    while (value >= 0x80) {
      *at++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at++ = static_cast<char>(value);
    return at;
  }
  [[nodiscard]] static char* PutRaw(char* at, std::string_view fields) {
    std::memcpy(at, fields.data(), fields.size());
    return at + fields.size();
  }
  // A packed list's element, inside Begin and End.
  void Packed(uint64_t value) {
    Reserve(kNumberBytes);
    Varint(value);
  }

  [[nodiscard]] std::string_view view() const { return {bytes_.data(), at_}; }
  [[nodiscard]] bool empty() const { return at_ == 0; }
  [[nodiscard]] size_t size() const { return at_; }
  void Clear() { at_ = 0; }

 private:
  static constexpr size_t kNumberBytes = 20;  // a tag and a number: five and ten at most
  void Reserve(size_t more) {
    if (bytes_.size() - at_ < more) bytes_.resize((bytes_.size() + more) * 2);
  }
  void Varint(uint64_t value) { Commit(PutVarint(&bytes_[at_], value)); }
  void Copy(std::string_view text) {
    if (!text.empty()) std::memcpy(&bytes_[at_], text.data(), text.size());
    at_ += text.size();
  }

  std::vector<char> bytes_;
  size_t at_ = 0;
};

// Names as in Perfetto's schema: message, then field.
namespace pf {

inline constexpr uint32_t kTracePacket = 1;

inline constexpr uint32_t kPacketClockSnapshot = 6, kPacketTimestamp = 8, kPacketSequenceId = 10,
                          kPacketTrackEvent = 11, kPacketInternedData = 12,
                          kPacketSequenceFlags = 13, kPacketPreviousDropped = 42,
                          kPacketRenderStage = 53, kPacketTrackDescriptor = 60,
                          kPacketDefaults = 59, kPacketFirstOnSequence = 87, kPacketTraceUuid = 89,
                          kPacketTraceAttributes = 126, kPacketGpuInfo = 128;
inline constexpr uint32_t kFlagStateCleared = 1, kFlagNeedsState = 2;

inline constexpr uint32_t kSnapshotClocks = 1, kSnapshotPrimary = 2, kClockId = 1,
                          kClockTimestamp = 2, kDefaultsClockId = 58;
inline constexpr uint32_t kClockRealtime = 1;
// The first of those numbers that mean something within one sequence only.
inline constexpr uint32_t kClockSession = 64;

inline constexpr uint32_t kUuidMsb = 1, kUuidLsb = 2;
inline constexpr uint32_t kAttributesAttribute = 1, kAttributeKey = 1, kAttributeLong = 2,
                          kAttributeText = 3;
inline constexpr uint32_t kGpuInfoGpus = 1, kGpuName = 1, kGpuVendor = 2, kGpuModel = 3,
                          kGpuArchitecture = 4, kGpuUuid = 5;

inline constexpr uint32_t kTrackUuid = 1, kTrackName = 2, kTrackProcess = 3, kTrackThread = 4,
                          kTrackParent = 5, kTrackCounter = 8;
inline constexpr uint32_t kProcessPid = 1, kProcessName = 6, kProcessLabels = 8;
inline constexpr uint32_t kThreadPid = 1, kThreadTid = 2, kThreadName = 5;
inline constexpr uint32_t kCounterUnit = 3, kUnitTimeNs = 1, kUnitCount = 2;

inline constexpr uint32_t kEventCategories = 3, kEventAnnotations = 4, kEventType = 9,
                          kEventNameIid = 10, kEventTrack = 11, kEventCounterValue = 30,
                          kEventCallstackIid = 56, kEventGpuCorrelation = 3000;
inline constexpr uint32_t kTypeBegin = 1, kTypeEnd = 2, kTypeInstant = 3, kTypeCounter = 4;
inline constexpr uint32_t kCorrelationSubmissions = 1;
inline constexpr uint32_t kAnnotationNameIid = 1, kAnnotationBool = 2, kAnnotationUint = 3,
                          kAnnotationInt = 4, kAnnotationText = 6;

inline constexpr uint32_t kInternedCategories = 1, kInternedEventNames = 2,
                          kInternedAnnotationNames = 3, kInternedContexts = 23,
                          kInternedSpecifications = 24, kInternedKernels = 1000,
                          kInternedArgNames = 1001;
inline constexpr uint32_t kInternedFunctionNames = 5, kInternedFrames = 6, kInternedCallstacks = 7,
                          kInternedBuildIds = 16, kInternedPaths = 17, kInternedSources = 18,
                          kInternedMappings = 19;
inline constexpr uint32_t kIid = 1, kInternedName = 2;
inline constexpr uint32_t kCallstackFrames = 2;  // outermost first
inline constexpr uint32_t kFrameFunction = 2, kFrameMapping = 3, kFrameAddress = 4,
                          kFrameSource = 5, kFrameLine = 6;
inline constexpr uint32_t kMappingBuildId = 2, kMappingPath = 7;
inline constexpr uint32_t kContextPid = 2, kContextApi = 3, kApiCuda = 4;
inline constexpr uint32_t kSpecificationCategory = 4, kCategoryOther = 0, kCategoryCompute = 2;
inline constexpr uint32_t kKernelDemangled = 3, kKernelArchitecture = 4;

inline constexpr uint32_t kStageEventId = 1, kStageDuration = 2, kStageContext = 5, kStageGpu = 11,
                          kStageQueueIid = 13, kStageStageIid = 14, kStageKernelIid = 19,
                          kStageNameIid = 20, kStageLaunch = 21;
inline constexpr uint32_t kLaunchGrid = 1, kLaunchWorkgroup = 2, kLaunchArgs = 3;
inline constexpr uint32_t kArgNameIid = 1, kArgInt = 3, kArgUint = 4, kArgDouble = 5;

}  // namespace pf
}  // namespace stepagent::writers
