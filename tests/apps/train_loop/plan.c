#include "plan.h"

#include <string.h>

static uint64_t LayerBytes(const Config* config) {
  return sizeof(float) * (uint64_t)config->elements;
}

Tally PlanSetup(const Config* config) {
  Tally plan;
  memset(&plan, 0, sizeof plan);
  if (config->host_only) return plan;
  TallyCopy(&plan, kCallHtoDAsync, kCopyHtoDPageable, LayerBytes(config) * config->layers);
  plan.calls[kCallStreamSynchronize] = 1;
  // Captured launches are calls without device work.
  if (config->graph == kGraphCapture) plan.calls[kCallLaunchKernel] = config->layers;
  return plan;
}

static void PlanRanges(const Config* config, Tally* plan) {
  for (int i = 0; i < kRangeCount; i++) plan->ranges[i] = 1;
  plan->ranges[kRangeBackwardLayer] = config->layers;
}

static void PlanKernels(const Config* config, Tally* plan) {
  const uint64_t layers = config->layers;
  plan->kernels[kKernelForwardLinear] = plan->kernels[kKernelForwardRelu] = layers;
  plan->kernels[kKernelLossSum] = 1;
  plan->kernels[kKernelBackward] = plan->kernels[kKernelSgdUpdate] = layers;
  const bool has_graph = config->graph != kGraphNone;
  plan->calls[kCallLaunchKernel] = 3 * layers + 1 + (has_graph ? 0 : layers);
  plan->calls[kCallGraphLaunch] = has_graph ? 1 : 0;
}

Tally PlanStep(const Config* config, uint32_t step) {
  Tally plan;
  memset(&plan, 0, sizeof plan);
  PlanRanges(config, &plan);
  if (config->host_only) return plan;
  PlanKernels(config, &plan);
  const uint64_t layer_bytes = LayerBytes(config);
  TallyCopy(&plan, kCallHtoDAsync, kCopyHtoDPinned, layer_bytes);
  TallyCopy(&plan, kCallHtoDAsync, kCopyHtoDPageable, layer_bytes);
  TallyCopy(&plan, kCallDtoDAsync, kCopyDtoD, layer_bytes * config->layers);
  TallyCopy(&plan, kCallDtoHAsync, kCopyDtoHPinned, sizeof(uint64_t));
  TallySet(&plan, kCallSetD8Async, sizeof(uint64_t));
  TallySet(&plan, kCallSetD32Async, layer_bytes * config->layers);
  plan.calls[kCallEventRecord] = 2;
  plan.calls[kCallStreamWaitEvent] = 1;
  plan.calls[kCallEventSynchronize] = config->lag == 0 || step > config->lag ? 1 : 0;
  plan.calls[kCallStreamSynchronize] = config->lag == 0 ? 1 : 0;
  return plan;
}

Tally PlanTeardown(const Config* config) {
  Tally plan;
  memset(&plan, 0, sizeof plan);
  if (config->host_only) return plan;
  plan.calls[kCallCtxSynchronize] = 1;
  TallyCopy(&plan, kCallDtoH, kCopyDtoHPageable, LayerBytes(config) * config->layers);
  return plan;
}

void PrintPlan(FILE* out, const Config* config) {
  Tally setup = PlanSetup(config), teardown = PlanTeardown(config), total = setup;
  fprintf(out, "{\"steps\": %u, \"setup\": ", config->steps);
  TallyPrint(out, &setup);
  fputs(",\n\"per_step\": [", out);
  for (uint32_t step = 0; step < config->steps; step++) {
    const Tally plan = PlanStep(config, step);
    fputs(step == 0 ? "\n" : ",\n", out);
    TallyPrint(out, &plan);
    TallyAdd(&total, &plan);
  }
  fputs("],\n\"teardown\": ", out);
  TallyPrint(out, &teardown);
  TallyAdd(&total, &teardown);
  fputs(",\n\"total\": ", out);
  TallyPrint(out, &total);
  fputs("}\n", out);
}
