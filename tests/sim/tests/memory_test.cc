// Memory, copies, modules.
#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "tests/driver_fixture.h"

namespace stepagent::sim_test {
namespace {

TEST(Memory, CopiesMoveDataAllWays) {
  Isolated({}, [] {
    UseDevice();
    std::vector<char> source(1000);
    for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(i * 7);
    const CUdeviceptr first = NewMemory(1000);
    const CUdeviceptr second = NewMemory(1000);
    CUstream stream = NewStream();
    EXPECT_CUDA(cuMemcpyHtoDAsync(first, source.data(), 1000, stream));
    EXPECT_CUDA(cuMemcpyDtoDAsync(second, first, 1000, stream));
    std::vector<char> back(1000);
    EXPECT_CUDA(cuMemcpyDtoHAsync(back.data(), second, 1000, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_EQ(back, source);
    std::vector<char> again(1000);
    EXPECT_CUDA(cuMemcpy(reinterpret_cast<CUdeviceptr>(again.data()), second, 1000));
    EXPECT_EQ(again, source);
  });
}

TEST(Memory, SetsAndRows) {
  Isolated({}, [] {
    UseDevice();
    const CUdeviceptr memory = NewMemory(64);
    EXPECT_CUDA(cuMemsetD32(memory, 0x01020304, 16));
    EXPECT_CUDA(cuMemsetD8(memory, 9, 4));
    EXPECT_CUDA(cuMemsetD16(memory + 8, 0x0505, 2));
    unsigned char rows[2][3] = {};
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = memory;
    copy.srcPitch = 8;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = rows;
    copy.dstPitch = 3;
    copy.WidthInBytes = 3;
    copy.Height = 2;
    EXPECT_CUDA(cuMemcpy2D(&copy));
    const unsigned char expected[2][3] = {{9, 9, 9}, {5, 5, 5}};
    EXPECT_EQ(memcmp(rows, expected, sizeof(rows)), 0);
  });
}

TEST(Memory, IsFiniteAndCounted) {
  Isolated({{"DEVICE_BYTES", "1000000"}}, [] {
    UseDevice();
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    const CUdeviceptr memory = NewMemory(600000);
    EXPECT_CUDA(cuMemGetInfo(&free_bytes, &total_bytes));
    EXPECT_EQ(free_bytes, 400000u);
    CUdeviceptr more = 0;
    EXPECT_EQ(cuMemAlloc(&more, 600000), CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_CUDA(cuMemFree(memory));
    EXPECT_CUDA(cuMemAlloc(&more, 600000));
    EXPECT_EQ(cuMemFree(more + 8), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Memory, PointersAreKnown) {
  Isolated({}, [] {
    UseDevice();
    unsigned type = 0;
    EXPECT_CUDA(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, NewMemory(8) + 4));
    EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
    static char host[64];
    const auto address = reinterpret_cast<CUdeviceptr>(host);
    EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_CUDA(cuMemHostRegister(host, sizeof(host), 0));
    EXPECT_CUDA(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    EXPECT_EQ(type, CU_MEMORYTYPE_HOST);
    EXPECT_EQ(cuMemHostRegister(host, sizeof(host), 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_CUDA(cuMemHostUnregister(host));
    EXPECT_EQ(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  });
}

TEST(Memory, StreamOrderedAllocation) {
  Isolated({}, [] {
    UseDevice();
    CUstream stream = NewStream();
    CUdeviceptr memory = 0;
    EXPECT_CUDA(cuMemAllocAsync(&memory, 4096, stream));
    EXPECT_CUDA(cuMemsetD8Async(memory, 3, 4096, stream));
    EXPECT_CUDA(cuMemFreeAsync(memory, stream));
    CUmemoryPool pool = nullptr;
    EXPECT_CUDA(cuDeviceGetDefaultMemPool(&pool, 0));
    EXPECT_NE(pool, nullptr);
  });
}

TEST(Memory, DurationsFollowSizeAndKind) {
  // 60 kB at 60 bytes/us pageable: 1 ms; pinned four times faster; no fixed part.
  Isolated({{"COPY_FIXED", "0"}, {"RATE_PAGEABLE", "60"}, {"RATE_PINNED", "240"}}, [] {
    UseDevice();
    constexpr size_t kBytes = 60000;
    const CUdeviceptr memory = NewMemory(kBytes);
    std::vector<char> pageable(kBytes);
    void* pinned = nullptr;
    EXPECT_CUDA(cuMemAllocHost(&pinned, kBytes));
    CUstream stream = NewStream();
    CUevent marks[3];
    for (CUevent& mark : marks) EXPECT_CUDA(cuEventCreate(&mark, 0));
    EXPECT_CUDA(Launch(Kernel("hold", 50 * kMs), stream));
    EXPECT_CUDA(cuEventRecord(marks[0], stream));
    EXPECT_CUDA(cuMemcpyHtoDAsync(memory, pageable.data(), kBytes, stream));
    EXPECT_CUDA(cuEventRecord(marks[1], stream));
    EXPECT_CUDA(cuMemcpyHtoDAsync(memory, pinned, kBytes, stream));
    EXPECT_CUDA(cuEventRecord(marks[2], stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    float milliseconds = 0;
    EXPECT_CUDA(cuEventElapsedTime(&milliseconds, marks[0], marks[1]));
    EXPECT_FLOAT_EQ(milliseconds, 1.0f);
    EXPECT_CUDA(cuEventElapsedTime(&milliseconds, marks[1], marks[2]));
    EXPECT_FLOAT_EQ(milliseconds, 0.25f);
  });
}

#if defined(__x86_64__)
TEST(Memory, OldestNamesTakeShortPointers) {
  Isolated({}, [] {
    UseDevice();
    void* self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    auto alloc = reinterpret_cast<CUresult (*)(unsigned*, unsigned)>(dlsym(self, "cuMemAlloc"));
    auto write = reinterpret_cast<CUresult (*)(unsigned, const void*, unsigned)>(
        dlsym(self, "cuMemcpyHtoD"));
    auto read =
        reinterpret_cast<CUresult (*)(void*, unsigned, unsigned)>(dlsym(self, "cuMemcpyDtoH"));
    unsigned memory = 0;
    EXPECT_CUDA(alloc(&memory, 16));
    const char text[16] = "short pointers";
    char back[16] = "";
    EXPECT_CUDA(write(memory, text, 16));
    EXPECT_CUDA(read(back, memory, 16));
    EXPECT_STREQ(back, text);
  });
}
#endif

constexpr char kPtx[] = R"(// generated
.version 7.0
.target sm_70
.address_size 64
// sim.duration_ns=20000000
.visible .entry slow(.param .u64 a) { ret; }
.visible .entry quick(
  .param .u64 a) { ret; }
// sim.duration_ns=forever
.entry endless() { ret; }
)";

TEST(Module, PtxEntriesAndTheirDurations) {
  Isolated({{"KERNEL_NS", "1000"}}, [] {
    UseDevice();
    CUmodule module = nullptr;
    EXPECT_CUDA(cuModuleLoadData(&module, kPtx));
    CUfunction slow = nullptr;
    CUfunction quick = nullptr;
    CUfunction endless = nullptr;
    EXPECT_CUDA(cuModuleGetFunction(&slow, module, "slow"));
    EXPECT_CUDA(cuModuleGetFunction(&quick, module, "quick"));
    EXPECT_CUDA(cuModuleGetFunction(&endless, module, "endless"));
    CUfunction none = nullptr;
    EXPECT_EQ(cuModuleGetFunction(&none, module, "missing"), CUDA_ERROR_NOT_FOUND);
    CUstream stream = NewStream();
    int64_t before = sim::MonotonicNs();
    EXPECT_CUDA(Launch(slow, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_GE(sim::MonotonicNs() - before, int64_t(20 * kMs));
    EXPECT_CUDA(Launch(quick, stream));
    EXPECT_CUDA(cuStreamSynchronize(stream));
    EXPECT_CUDA(Launch(endless, stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  });
}

TEST(Module, BinaryImagesHaveAnyKernel) {
  Isolated({}, [] {
    UseDevice();
    CUmodule module = nullptr;
    EXPECT_CUDA(cuModuleLoadData(&module, "\177ELF\2\1\1"));
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleGetFunction(&function, module, "anything"));
    int value = 0;
    EXPECT_CUDA(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    EXPECT_EQ(value, 1024);
    EXPECT_CUDA(Launch(function));
    EXPECT_CUDA(cuModuleUnload(module));
    EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Module, LibrariesAndRegisteredKernels) {
  Isolated({}, [] {
    UseDevice();
    CUlibrary library = nullptr;
    EXPECT_CUDA(cuLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CUkernel kernel = nullptr;
    EXPECT_CUDA(cuLibraryGetKernel(&kernel, library, "quick"));
    EXPECT_CUDA(Launch(reinterpret_cast<CUfunction>(kernel)));
    EXPECT_EQ(Kernel("same", 5), Kernel("same", 5));
    EXPECT_NE(Kernel("same", 5), Kernel("same", 6));
    const char* name = nullptr;
    EXPECT_CUDA(cuFuncGetName(&name, Kernel("void f<int>(float*)", 5)));
    EXPECT_STREQ(name, "void f<int>(float*)");
  });
}

}  // namespace
}  // namespace stepagent::sim_test
