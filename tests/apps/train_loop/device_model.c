#include "device_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

static size_t LayerBytes(const DeviceModel* model) {
  return sizeof(float) * model->config.elements;
}

static CUdeviceptr Allocate(DeviceModel* model, size_t bytes) {
  return DeviceAllocate(&model->device, bytes);
}

static void LaunchNow(DeviceModel* model, KernelId kernel, const CUdeviceptr* pointers,
                      float factor) {
  DeviceLaunch(&model->device, model->compute, kernel, pointers, factor, model->config.elements);
  model->tally->calls[kCallLaunchKernel]++;
  model->tally->kernels[kernel]++;
}

static void SgdPointers(const DeviceModel* model, uint32_t layer, CUdeviceptr* pointers) {
  pointers[0] = model->weights + layer * LayerBytes(model);
  pointers[1] = model->gradients + layer * LayerBytes(model);
  pointers[2] = pointers[3] = 0;
}

static void CaptureGraph(DeviceModel* model) {
  Driver* driver = &model->device.driver;
  CU(driver, cuStreamBeginCapture, (model->compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (uint32_t layer = 0; layer < model->config.layers; layer++) {
    CUdeviceptr pointers[4];
    SgdPointers(model, layer, pointers);
    DeviceLaunch(&model->device, model->compute, kKernelSgdUpdate, pointers, -kLearningRate,
                 model->config.elements);
    model->tally->calls[kCallLaunchKernel]++;
  }
  CU(driver, cuStreamEndCapture, (model->compute, &model->graph));
}

static void BuildGraph(DeviceModel* model) {
  CU(&model->device.driver, cuGraphCreate, (&model->graph, 0));
  CUgraphNode previous = NULL;
  for (uint32_t layer = 0; layer < model->config.layers; layer++) {
    CUdeviceptr pointers[4];
    SgdPointers(model, layer, pointers);
    previous = DeviceAddNode(&model->device, model->graph, previous, kKernelSgdUpdate, pointers,
                             -kLearningRate, model->config.elements);
  }
}

static void CreateGraph(DeviceModel* model) {
  if (model->config.graph == kGraphNone) return;
  if (model->config.graph == kGraphCapture) CaptureGraph(model);
  if (model->config.graph == kGraphBuild) BuildGraph(model);
  CU(&model->device.driver, cuGraphInstantiateWithFlags, (&model->graph_exec, model->graph, 0));
}

static void CreateSlots(DeviceModel* model) {
  Driver* driver = &model->device.driver;
  model->slot_count = model->config.lag + 1;
  for (uint32_t i = 0; i < model->slot_count; i++) {
    Slot* slot = &model->slots[i];
    CU(driver, cuMemHostAlloc, ((void**)&slot->pinned_input, LayerBytes(model), 0));
    CU(driver, cuMemHostAlloc, ((void**)&slot->pinned_loss, sizeof(uint64_t), 0));
    slot->pageable_labels = malloc(LayerBytes(model));
    if (slot->pageable_labels == NULL) abort();
    slot->input = Allocate(model, LayerBytes(model));
    slot->labels = Allocate(model, LayerBytes(model));
    CU(driver, cuEventCreate, (&slot->copied, CU_EVENT_DISABLE_TIMING));
    CU(driver, cuEventCreate, (&slot->done, CU_EVENT_DISABLE_TIMING));
  }
}

static void UploadWeights(DeviceModel* model) {
  const size_t bytes = LayerBytes(model) * model->config.layers;
  float* weights = malloc(bytes);
  if (weights == NULL) abort();
  FillWeights(model->config.seed, model->config.layers, model->config.elements, weights);
  CU(&model->device.driver, cuMemcpyHtoDAsync, (model->weights, weights, bytes, model->compute));
  TallyCopy(model->tally, kCallHtoDAsync, kCopyHtoDPageable, bytes);
  CU(&model->device.driver, cuStreamSynchronize, (model->compute));
  model->tally->calls[kCallStreamSynchronize]++;
  free(weights);
}

void DeviceModelCreate(DeviceModel* model, const Config* config, Tally* tally) {
  Driver* driver = &model->device.driver;
  model->config = *config;
  model->tally = tally;
  CU(driver, cuStreamCreate, (&model->compute, CU_STREAM_NON_BLOCKING));
  CU(driver, cuStreamCreate, (&model->copy, CU_STREAM_NON_BLOCKING));
  const size_t layer = LayerBytes(model);
  model->weights = Allocate(model, layer * config->layers);
  model->gradients = Allocate(model, layer * config->layers);
  model->snapshot = Allocate(model, layer * config->layers);
  model->activations = Allocate(model, layer * config->layers);
  model->delta = Allocate(model, layer);
  model->loss = Allocate(model, sizeof(uint64_t));
  CreateSlots(model);
  UploadWeights(model);
  CreateGraph(model);
}

void DeviceModelDestroy(DeviceModel* model) {
  Driver* driver = &model->device.driver;
  if (model->graph_exec != NULL) CU(driver, cuGraphExecDestroy, (model->graph_exec));
  if (model->graph != NULL) CU(driver, cuGraphDestroy, (model->graph));
  for (uint32_t i = 0; i < model->slot_count; i++) {
    Slot* slot = &model->slots[i];
    CU(driver, cuMemFreeHost, (slot->pinned_input));
    CU(driver, cuMemFreeHost, (slot->pinned_loss));
    free(slot->pageable_labels);
    CU(driver, cuMemFree, (slot->input));
    CU(driver, cuMemFree, (slot->labels));
    CU(driver, cuEventDestroy, (slot->copied));
    CU(driver, cuEventDestroy, (slot->done));
  }
  const CUdeviceptr memory[] = {model->weights,     model->gradients, model->snapshot,
                                model->activations, model->delta,     model->loss};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) CU(driver, cuMemFree, (memory[i]));
  CU(driver, cuStreamDestroy, (model->compute));
  CU(driver, cuStreamDestroy, (model->copy));
  DeviceClose(&model->device);
}

Slot* DeviceAcquireSlot(DeviceModel* model, uint32_t step) {
  Slot* slot = &model->slots[step % model->slot_count];
  // With lag 0 the step before has been waited for already.
  if (model->config.lag > 0 && step >= model->slot_count) {
    CU(&model->device.driver, cuEventSynchronize, (slot->done));
    model->tally->calls[kCallEventSynchronize]++;
  }
  return slot;
}

void DeviceCopyIn(DeviceModel* model, Slot* slot) {
  Driver* driver = &model->device.driver;
  const size_t bytes = LayerBytes(model);
  CU(driver, cuMemcpyHtoDAsync, (slot->input, slot->pinned_input, bytes, model->copy));
  TallyCopy(model->tally, kCallHtoDAsync, kCopyHtoDPinned, bytes);
  CU(driver, cuMemcpyHtoDAsync, (slot->labels, slot->pageable_labels, bytes, model->copy));
  TallyCopy(model->tally, kCallHtoDAsync, kCopyHtoDPageable, bytes);
  CU(driver, cuEventRecord, (slot->copied, model->copy));
  CU(driver, cuStreamWaitEvent, (model->compute, slot->copied, 0));
  model->tally->calls[kCallEventRecord]++;
  model->tally->calls[kCallStreamWaitEvent]++;
}

static CUdeviceptr LayerInput(const DeviceModel* model, const Slot* slot, uint32_t layer) {
  return layer == 0 ? slot->input : model->activations + (layer - 1) * LayerBytes(model);
}

void DeviceForward(DeviceModel* model, const Slot* slot) {
  for (uint32_t layer = 0; layer < model->config.layers; layer++) {
    const CUdeviceptr out = LayerInput(model, slot, layer + 1);
    const CUdeviceptr weight = model->weights + layer * LayerBytes(model);
    const CUdeviceptr linear[4] = {LayerInput(model, slot, layer), weight, out, 0};
    LaunchNow(model, kKernelForwardLinear, linear, kBias);
    const CUdeviceptr relu[4] = {out, 0, 0, 0};
    LaunchNow(model, kKernelForwardRelu, relu, 0.0f);
  }
  CU(&model->device.driver, cuMemsetD8Async, (model->loss, 0, sizeof(uint64_t), model->compute));
  TallySet(model->tally, kCallSetD8Async, sizeof(uint64_t));
  const CUdeviceptr loss[4] = {LayerInput(model, slot, model->config.layers), slot->labels,
                               model->delta, model->loss};
  LaunchNow(model, kKernelLossSum, loss, 0.0f);
}

void DeviceZeroGradients(DeviceModel* model) {
  const size_t words = (size_t)model->config.layers * model->config.elements;
  CU(&model->device.driver, cuMemsetD32Async, (model->gradients, 0, words, model->compute));
  TallySet(model->tally, kCallSetD32Async, words * sizeof(float));
}

void DeviceBackwardLayer(DeviceModel* model, const Slot* slot, uint32_t layer) {
  const size_t offset = layer * LayerBytes(model);
  const CUdeviceptr pointers[4] = {model->delta, model->weights + offset,
                                   LayerInput(model, slot, layer), model->gradients + offset};
  LaunchNow(model, kKernelBackward, pointers, kBias);
}

void DeviceOptimizer(DeviceModel* model, Slot* slot) {
  Driver* driver = &model->device.driver;
  if (model->config.graph == kGraphNone) {
    for (uint32_t layer = 0; layer < model->config.layers; layer++) {
      CUdeviceptr pointers[4];
      SgdPointers(model, layer, pointers);
      LaunchNow(model, kKernelSgdUpdate, pointers, -kLearningRate);
    }
  } else {
    CU(driver, cuGraphLaunch, (model->graph_exec, model->compute));
    model->tally->calls[kCallGraphLaunch]++;
    model->tally->kernels[kKernelSgdUpdate] += model->config.layers;
  }
  const size_t bytes = LayerBytes(model) * model->config.layers;
  CU(driver, cuMemcpyDtoDAsync, (model->snapshot, model->weights, bytes, model->compute));
  TallyCopy(model->tally, kCallDtoDAsync, kCopyDtoD, bytes);
  CU(driver, cuMemcpyDtoHAsync, (slot->pinned_loss, model->loss, sizeof(uint64_t), model->compute));
  TallyCopy(model->tally, kCallDtoHAsync, kCopyDtoHPinned, sizeof(uint64_t));
}

void DeviceEndStep(DeviceModel* model, Slot* slot) {
  Driver* driver = &model->device.driver;
  CU(driver, cuEventRecord, (slot->done, model->compute));
  model->tally->calls[kCallEventRecord]++;
  if (model->config.lag > 0) return;
  CU(driver, cuEventSynchronize, (slot->done));
  CU(driver, cuStreamSynchronize, (model->copy));
  model->tally->calls[kCallEventSynchronize]++;
  model->tally->calls[kCallStreamSynchronize]++;
}

void DeviceFetchWeights(DeviceModel* model, float* weights) {
  Driver* driver = &model->device.driver;
  CU(driver, cuCtxSynchronize, ());
  model->tally->calls[kCallCtxSynchronize]++;
  const size_t bytes = LayerBytes(model) * model->config.layers;
  CU(driver, cuMemcpyDtoH, (weights, model->weights, bytes));
  TallyCopy(model->tally, kCallDtoH, kCopyDtoHPageable, bytes);
}
