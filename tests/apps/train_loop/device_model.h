// The model on the device: two streams, one graph, and a count of every call made.
//
// Thread rule: one thread at a time, each after DeviceBind; the backward pass may come from
// another thread than the rest.
// Failure rule: a failing CUDA call ends the program with status 1 and its name.
#pragma once

#include "config.h"
#include "support/device.h"
#include "support/tally.h"

typedef struct Slot {  // one batch in flight; there are lag + 1 of them
  float* pinned_input;
  float* pageable_labels;
  uint64_t* pinned_loss;
  CUdeviceptr input, labels;
  CUevent copied, done;
} Slot;

typedef struct DeviceModel {
  Device device;  // opened by the owner, closed by DeviceModelDestroy
  Config config;
  CUstream compute, copy;
  CUdeviceptr weights, gradients, activations, delta, loss, snapshot;
  CUgraph graph;
  CUgraphExec graph_exec;
  Slot slots[kMaxLag + 1];
  uint32_t slot_count;
  Tally* tally;  // where the calls are counted; changed from step to step by the owner
} DeviceModel;

void DeviceModelCreate(DeviceModel* model, const Config* config, Tally* tally);
void DeviceModelDestroy(DeviceModel* model);

// The parts of step `step`, in this order.
Slot* DeviceAcquireSlot(DeviceModel* model, uint32_t step);
void DeviceCopyIn(DeviceModel* model, Slot* slot);
void DeviceForward(DeviceModel* model, const Slot* slot);
void DeviceZeroGradients(DeviceModel* model);
void DeviceBackwardLayer(DeviceModel* model, const Slot* slot, uint32_t layer);
void DeviceOptimizer(DeviceModel* model, Slot* slot);
void DeviceEndStep(DeviceModel* model, Slot* slot);

// Waits for everything, then fetches the weights into `weights` (layers * elements).
void DeviceFetchWeights(DeviceModel* model, float* weights);
