// Exported functions: copies and sets, in all their spellings.
#include <cuda.h>
#include <generated_cuda_meta.h>

#include "cuda/memory.h"
#include "cuda/trace.h"

using namespace stepagent::sim;  // NOLINT: this file is all exported C functions

namespace {

void* At(CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); }

CUresult CopyFlat(void* target, const void* source, size_t bytes, CUstream handle, bool per_thread,
                  bool is_synchronous) {
  CopyRequest request{
      .target = target, .source = source, .row_bytes = bytes, .is_synchronous = is_synchronous};
  const CUresult result = ResolveStream(handle, per_thread, &request.stream);
  if (result != CUDA_SUCCESS) return result;
  return bytes == 0 ? CUDA_SUCCESS : Copy(request);
}

CUresult CopyPeer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                  CUcontext source_context, size_t bytes, CUstream handle, bool per_thread,
                  bool is_synchronous) {
  CopyRequest request{.target = At(target),
                      .source = At(source),
                      .row_bytes = bytes,
                      .is_synchronous = is_synchronous,
                      .is_peer = true,
                      .source_context = ToContext(source_context),
                      .target_context = ToContext(target_context)};
  if (request.source_context == nullptr || request.target_context == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const CUresult result = ResolveStream(handle, per_thread, &request.stream);
  return result != CUDA_SUCCESS ? result : Copy(request);
}

// Arrays are not modelled: both sides are linear memory.
CUresult Copy2D(const CUDA_MEMCPY2D* copy, CUstream handle, bool per_thread, bool is_synchronous) {
  if (copy == nullptr || copy->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
      copy->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool from_host = copy->srcMemoryType == CU_MEMORYTYPE_HOST;
  const bool to_host = copy->dstMemoryType == CU_MEMORYTYPE_HOST;
  const auto* source = static_cast<const char*>(from_host ? copy->srcHost : At(copy->srcDevice));
  auto* target = static_cast<char*>(to_host ? copy->dstHost : At(copy->dstDevice));
  const size_t source_pitch = copy->srcPitch != 0 ? copy->srcPitch : copy->WidthInBytes;
  const size_t target_pitch = copy->dstPitch != 0 ? copy->dstPitch : copy->WidthInBytes;
  CopyRequest request{.target = target + copy->dstY * target_pitch + copy->dstXInBytes,
                      .source = source + copy->srcY * source_pitch + copy->srcXInBytes,
                      .row_bytes = copy->WidthInBytes,
                      .rows = copy->Height,
                      .target_pitch = target_pitch,
                      .source_pitch = source_pitch,
                      .is_synchronous = is_synchronous};
  const CUresult result = ResolveStream(handle, per_thread, &request.stream);
  return result != CUDA_SUCCESS ? result : Copy(request);
}

CUresult SetFlat(CUdeviceptr target, uint32_t value, uint32_t element_bytes, size_t count,
                 CUstream handle, bool per_thread, bool is_synchronous) {
  SetRequest request{.target = At(target),
                     .value = value,
                     .element_bytes = element_bytes,
                     .count = count,
                     .is_synchronous = is_synchronous};
  const CUresult result = ResolveStream(handle, per_thread, &request.stream);
  return result != CUDA_SUCCESS ? result : Set(request);
}

CUresult SetRows(CUdeviceptr target, size_t pitch, uint32_t value, uint32_t element_bytes,
                 size_t width, size_t height, CUstream handle, bool per_thread,
                 bool is_synchronous) {
  SetRequest request{.target = At(target),
                     .value = value,
                     .element_bytes = element_bytes,
                     .count = width,
                     .rows = height,
                     .pitch = pitch,
                     .is_synchronous = is_synchronous};
  const CUresult result = ResolveStream(handle, per_thread, &request.stream);
  return result != CUDA_SUCCESS ? result : Set(request);
}

}  // namespace

// The oldest forms: 32-bit device pointers and sizes.
SIM_API(cuMemcpyHtoD, (CUdeviceptr_v1 dstDevice, const void* srcHost, unsigned int ByteCount),
        (dstDevice, srcHost, ByteCount),
        return CopyFlat(At(dstDevice), srcHost, ByteCount, nullptr, false, true);)
SIM_API(cuMemcpyDtoH, (void* dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount),
        (dstHost, srcDevice, ByteCount),
        return CopyFlat(dstHost, At(srcDevice), ByteCount, nullptr, false, true);)
SIM_API(cuMemcpyDtoD, (CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount),
        (dstDevice, srcDevice, ByteCount),
        return CopyFlat(At(dstDevice), At(srcDevice), ByteCount, nullptr, false, false);)
SIM_API(cuMemcpyHtoDAsync,
        (CUdeviceptr_v1 dstDevice, const void* srcHost, unsigned int ByteCount, CUstream hStream),
        (dstDevice, srcHost, ByteCount, hStream),
        return CopyFlat(At(dstDevice), srcHost, ByteCount, hStream, false, false);)
SIM_API(cuMemcpyDtoHAsync,
        (void* dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount, CUstream hStream),
        (dstHost, srcDevice, ByteCount, hStream),
        return CopyFlat(dstHost, At(srcDevice), ByteCount, hStream, false, false);)

SIM_PTDS_API(cuMemcpyHtoD_v2, (CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount),
             (dstDevice, srcHost, ByteCount),
             return CopyFlat(At(dstDevice), srcHost, ByteCount, nullptr, per_thread, true);)
SIM_PTDS_API(cuMemcpyDtoH_v2, (void* dstHost, CUdeviceptr srcDevice, size_t ByteCount),
             (dstHost, srcDevice, ByteCount),
             return CopyFlat(dstHost, At(srcDevice), ByteCount, nullptr, per_thread, true);)
// Device to device copies do not make the host wait.
SIM_PTDS_API(cuMemcpyDtoD_v2, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
             (dstDevice, srcDevice, ByteCount),
             return CopyFlat(At(dstDevice), At(srcDevice), ByteCount, nullptr, per_thread, false);)
SIM_PTDS_API(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount), (dst, src, ByteCount),
             return CopyFlat(At(dst), At(src), ByteCount, nullptr, per_thread, true);)
SIM_PTDS_API(cuMemcpy2D_v2, (const CUDA_MEMCPY2D* pCopy), (pCopy),
             return Copy2D(pCopy, nullptr, per_thread, true);)
SIM_PTDS_API(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D* pCopy), (pCopy),
             return Copy2D(pCopy, nullptr, per_thread, true);)
SIM_PTDS_API(cuMemcpyPeer,
             (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
              CUcontext srcContext, size_t ByteCount),
             (dstDevice, dstContext, srcDevice, srcContext, ByteCount),
             return CopyPeer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr,
                             per_thread, false);)

SIM_STREAM_API(cuMemcpyHtoDAsync_v2,
               (CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount, CUstream hStream),
               (dstDevice, srcHost, ByteCount, hStream),
               return CopyFlat(At(dstDevice), srcHost, ByteCount, hStream, per_thread, false);)
SIM_STREAM_API(cuMemcpyDtoHAsync_v2,
               (void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
               (dstHost, srcDevice, ByteCount, hStream),
               return CopyFlat(dstHost, At(srcDevice), ByteCount, hStream, per_thread, false);)
SIM_STREAM_API(cuMemcpyDtoDAsync_v2,
               (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
               (dstDevice, srcDevice, ByteCount, hStream),
               return CopyFlat(At(dstDevice), At(srcDevice), ByteCount, hStream, per_thread,
                               false);)
SIM_STREAM_API(cuMemcpyAsync,
               (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
               (dst, src, ByteCount, hStream),
               return CopyFlat(At(dst), At(src), ByteCount, hStream, per_thread, false);)
SIM_STREAM_API(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D* pCopy, CUstream hStream), (pCopy, hStream),
               return Copy2D(pCopy, hStream, per_thread, false);)
SIM_STREAM_API(cuMemcpyPeerAsync,
               (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                CUcontext srcContext, size_t ByteCount, CUstream hStream),
               (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream),
               return CopyPeer(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream,
                               per_thread, false);)

SIM_PTDS_API(cuMemsetD8_v2, (CUdeviceptr dstDevice, unsigned char uc, size_t N), (dstDevice, uc, N),
             return SetFlat(dstDevice, uc, 1, N, nullptr, per_thread, true);)
SIM_PTDS_API(cuMemsetD16_v2, (CUdeviceptr dstDevice, unsigned short us, size_t N),
             (dstDevice, us, N), return SetFlat(dstDevice, us, 2, N, nullptr, per_thread, true);)
SIM_PTDS_API(cuMemsetD32_v2, (CUdeviceptr dstDevice, unsigned int ui, size_t N), (dstDevice, ui, N),
             return SetFlat(dstDevice, ui, 4, N, nullptr, per_thread, true);)
SIM_STREAM_API(cuMemsetD8Async,
               (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
               (dstDevice, uc, N, hStream),
               return SetFlat(dstDevice, uc, 1, N, hStream, per_thread, false);)
SIM_STREAM_API(cuMemsetD16Async,
               (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
               (dstDevice, us, N, hStream),
               return SetFlat(dstDevice, us, 2, N, hStream, per_thread, false);)
SIM_STREAM_API(cuMemsetD32Async,
               (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
               (dstDevice, ui, N, hStream),
               return SetFlat(dstDevice, ui, 4, N, hStream, per_thread, false);)
SIM_PTDS_API(cuMemsetD2D8_v2,
             (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
              size_t Height),
             (dstDevice, dstPitch, uc, Width, Height),
             return SetRows(dstDevice, dstPitch, uc, 1, Width, Height, nullptr, per_thread, true);)
SIM_STREAM_API(cuMemsetD2D8Async,
               (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                size_t Height, CUstream hStream),
               (dstDevice, dstPitch, uc, Width, Height, hStream),
               return SetRows(dstDevice, dstPitch, uc, 1, Width, Height, hStream, per_thread,
                              false);)
