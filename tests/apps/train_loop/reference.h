// The model's arithmetic on the host: what the kernels compute, bit for bit.
//
// Serves as the work of a run without a device, and as the check of a run with one.
//
// Thread rule: one thread at a time.
// Failure rule: out of memory ends the program.
#pragma once

#include <stdint.h>

typedef struct HostModel {
  uint32_t layers, elements, seed;
  float* weights;      // layers * elements
  float* gradients;    // layers * elements
  float* activations;  // (layers + 1) * elements; the first is the input
  float* delta;        // elements
  float* labels;       // elements
  int64_t loss;
} HostModel;

extern const float kBias;
extern const float kLearningRate;

HostModel HostModelCreate(uint32_t layers, uint32_t elements, uint32_t seed);
void HostModelDestroy(HostModel* model);

// Deterministic data: the batch of a step, and the weights before the first step.
void FillBatch(uint32_t seed, uint32_t step, uint32_t elements, float* input, float* labels);
void FillWeights(uint32_t seed, uint32_t layers, uint32_t elements, float* weights);

void HostForward(HostModel* model);
void HostZeroGradients(HostModel* model);
void HostBackwardLayer(HostModel* model, uint32_t layer);
void HostOptimizer(HostModel* model);
