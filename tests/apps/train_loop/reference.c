#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const float kBias = 0.0625f;
const float kLearningRate = 0.001f;

static float* Allocate(size_t count) {
  float* memory = calloc(count, sizeof(float));
  if (memory == NULL) abort();
  return memory;
}

HostModel HostModelCreate(uint32_t layers, uint32_t elements, uint32_t seed) {
  HostModel model = {.layers = layers, .elements = elements, .seed = seed};
  model.weights = Allocate((size_t)layers * elements);
  model.gradients = Allocate((size_t)layers * elements);
  model.activations = Allocate((size_t)(layers + 1) * elements);
  model.delta = Allocate(elements);
  model.labels = Allocate(elements);
  FillWeights(seed, layers, elements, model.weights);
  return model;
}

void HostModelDestroy(HostModel* model) {
  free(model->weights);
  free(model->gradients);
  free(model->activations);
  free(model->delta);
  free(model->labels);
}

// A counter-based generator (splitmix64's finaliser): any element without the ones before it.
static float UnitFloat(uint64_t seed, uint64_t counter) {
  uint64_t z = seed * 0x9e3779b97f4a7c15u + counter * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return (float)(z >> 40) * (1.0f / 16777216.0f);
}

void FillBatch(uint32_t seed, uint32_t step, uint32_t elements, float* input, float* labels) {
  for (uint32_t i = 0; i < elements; i++) {
    const float value = UnitFloat(seed, ((uint64_t)(step + 1) << 32) | i);
    input[i] = 2.0f * value - 1.0f;
    labels[i] = 0.5f * value;
  }
}

void FillWeights(uint32_t seed, uint32_t layers, uint32_t elements, float* weights) {
  for (size_t i = 0; i < (size_t)layers * elements; i++) {
    // Close to one, so that a deep chain of products neither vanishes nor explodes.
    weights[i] = 1.0f + (UnitFloat(seed, i) - 0.5f) / (float)layers;
  }
}

void HostForward(HostModel* model) {
  const uint32_t n = model->elements;
  for (uint32_t layer = 0; layer < model->layers; layer++) {
    const float* in = model->activations + (size_t)layer * n;
    const float* weight = model->weights + (size_t)layer * n;
    float* out = model->activations + (size_t)(layer + 1) * n;
    for (uint32_t i = 0; i < n; i++) {
      const float value = fmaf(in[i], weight[i], kBias);
      out[i] = value > 0.0f ? value : 0.0f;
    }
  }
  const float* out = model->activations + (size_t)model->layers * n;
  model->loss = 0;
  for (uint32_t i = 0; i < n; i++) {
    const float difference = out[i] - model->labels[i];
    model->delta[i] = difference;
    const float square = difference * difference;
    model->loss += llrintf(square * 4096.0f);
  }
}

void HostZeroGradients(HostModel* model) {
  memset(model->gradients, 0, sizeof(float) * model->layers * model->elements);
}

void HostBackwardLayer(HostModel* model, uint32_t layer) {
  const uint32_t n = model->elements;
  const float* in = model->activations + (size_t)layer * n;
  const float* weight = model->weights + (size_t)layer * n;
  float* gradient = model->gradients + (size_t)layer * n;
  for (uint32_t i = 0; i < n; i++) {
    const float open = fmaf(in[i], weight[i], kBias) > 0.0f ? model->delta[i] : 0.0f;
    gradient[i] = fmaf(open, in[i], gradient[i]);
    model->delta[i] = open * weight[i];
  }
}

void HostOptimizer(HostModel* model) {
  for (size_t i = 0; i < (size_t)model->layers * model->elements; i++) {
    model->weights[i] = fmaf(-kLearningRate, model->gradients[i], model->weights[i]);
  }
}
