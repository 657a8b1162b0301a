// train_loop: a small training loop on the CUDA driver API with NVTX ranges.
//
// One binary for a real device, the simulated one, and none at all. The weights are checked
// against the host's arithmetic, so a run on a device that computes cannot go wrong unseen.
#include <inttypes.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backward_thread.h"
#include "config.h"
#include "device_model.h"
#include "plan.h"
#include "reference.h"

// Beyond this many element updates the check would take longer than the run.
static const uint64_t kMaxCheckedUpdates = 200000000;

typedef struct Run {
  Config config;
  DeviceModel device;  // unused when config.host_only
  HostModel host;
  BackwardThread backward;
  Slot* slot;
  Tally tally;  // of the part under way
  Tally* per_step;
} Run;

static void Push(Run* run, RangeId range) {
  run->tally.ranges[range]++;
  nvtxRangePushA(kRangeNames[range]);
}

static void BackwardStart(void* context) {
  Run* run = context;
  nvtxNameOsThreadA((uint32_t)gettid(), "backward");
  if (!run->config.host_only) DeviceBind(&run->device.device);
}

static void BackwardPass(void* context, uint32_t step) {
  Run* run = context;
  (void)step;
  Push(run, kRangeBackwardWorker);
  for (uint32_t layer = run->config.layers; layer-- > 0;) {
    Push(run, kRangeBackwardLayer);
    if (run->config.host_only) {
      HostBackwardLayer(&run->host, layer);
    } else {
      DeviceBackwardLayer(&run->device, run->slot, layer);
    }
    nvtxRangePop();
  }
  nvtxRangePop();
}

static void LoadBatch(Run* run, uint32_t step) {
  Push(run, kRangeLoadBatch);
  float* input = run->host.activations;
  float* labels = run->host.labels;
  if (!run->config.host_only) {
    run->slot = DeviceAcquireSlot(&run->device, step);
    input = run->slot->pinned_input;
    labels = run->slot->pageable_labels;
  }
  FillBatch(run->config.seed, step, run->config.elements, input, labels);
  if (run->config.sleep_us > 0) usleep(run->config.sleep_us);
  nvtxRangePop();
}

static void Step(Run* run, uint32_t step) {
  const bool has_device = !run->config.host_only;
  Push(run, kRangeStep);
  LoadBatch(run, step);
  Push(run, kRangeCopyIn);
  if (has_device) DeviceCopyIn(&run->device, run->slot);
  nvtxRangePop();
  Push(run, kRangeForward);
  has_device ? DeviceForward(&run->device, run->slot) : HostForward(&run->host);
  nvtxRangePop();
  Push(run, kRangeBackward);
  has_device ? DeviceZeroGradients(&run->device) : HostZeroGradients(&run->host);
  BackwardThreadRun(&run->backward, step);
  nvtxRangePop();
  Push(run, kRangeOptimizer);
  has_device ? DeviceOptimizer(&run->device, run->slot) : HostOptimizer(&run->host);
  nvtxRangePop();
  if (has_device) DeviceEndStep(&run->device, run->slot);
  nvtxRangePop();
}

// One step of the same model on the host, without ranges.
static void ReferenceStep(HostModel* host, uint32_t step) {
  FillBatch(host->seed, step, host->elements, host->activations, host->labels);
  HostForward(host);
  HostZeroGradients(host);
  for (uint32_t layer = host->layers; layer-- > 0;) HostBackwardLayer(host, layer);
  HostOptimizer(host);
}

static bool Equal(const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// Says what became of the weights; false when the device computed something else than the host.
static bool CheckWeights(Run* run, const float* weights) {
  const Config* config = &run->config;
  const size_t count = (size_t)config->layers * config->elements;
  if (config->steps * (uint64_t)count > kMaxCheckedUpdates) {
    puts("weights: not checked, the run is too long");
    return true;
  }
  if (config->steps > 0 && Equal(weights, run->host.weights, count)) {
    puts("weights: as uploaded, this device runs no kernels");
    return true;
  }
  for (uint32_t step = 0; step < config->steps; step++) ReferenceStep(&run->host, step);
  const bool is_equal = Equal(weights, run->host.weights, count);
  puts(is_equal ? "weights: equal to the host's" : "weights: WRONG, not equal to the host's");
  return is_equal;
}

static bool FinishDevice(Run* run, Tally* teardown) {
  memset(&run->tally, 0, sizeof run->tally);
  float* weights = calloc((size_t)run->config.layers * run->config.elements, sizeof(float));
  if (weights == NULL) abort();
  DeviceFetchWeights(&run->device, weights);
  *teardown = run->tally;
  const bool is_right = CheckWeights(run, weights);
  free(weights);
  DeviceModelDestroy(&run->device);
  return is_right;
}

static void PrintCounts(const Run* run, const Tally* setup, const Tally* teardown) {
  Tally total = *setup;
  fprintf(stdout, "{\"steps\": %u, \"setup\": ", run->config.steps);
  TallyPrint(stdout, setup);
  fputs(",\n\"per_step\": [", stdout);
  for (uint32_t step = 0; step < run->config.steps; step++) {
    fputs(step == 0 ? "\n" : ",\n", stdout);
    TallyPrint(stdout, &run->per_step[step]);
    TallyAdd(&total, &run->per_step[step]);
  }
  fputs("],\n\"teardown\": ", stdout);
  TallyPrint(stdout, teardown);
  TallyAdd(&total, teardown);
  fputs(",\n\"total\": ", stdout);
  TallyPrint(stdout, &total);
  fputs("}\n", stdout);
}

static int64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void OpenDevice(Run* run) {
  char reason[160] = "asked for";
  if (!run->config.host_only && DeviceOpen(&run->device.device, run->config.device,
                                           run->config.kernel_us, reason, sizeof reason)) {
    printf("device: %s\n", run->device.device.name);
    DeviceModelCreate(&run->device, &run->config, &run->tally);
    return;
  }
  run->config.host_only = true;
  printf("device: none, host only (%s)\n", reason);
}

int main(int argc, char** argv) {
  static Run run;
  run.config = ParseConfig(argc, argv);
  if (run.config.mode == kPrintExpected) {
    PrintPlan(stdout, &run.config);
    return 0;
  }
  OpenDevice(&run);
  run.host = HostModelCreate(run.config.layers, run.config.elements, run.config.seed);
  const Tally setup = run.tally;
  if (run.config.print_counts) run.per_step = calloc(run.config.steps + 1, sizeof(Tally));
  run.backward.start = BackwardStart;
  run.backward.run = BackwardPass;
  run.backward.context = &run;
  BackwardThreadStart(&run.backward);
  const int64_t begin_ns = NowNs();
  for (uint32_t step = 0; step < run.config.steps; step++) {
    memset(&run.tally, 0, sizeof run.tally);
    Step(&run, step);
    if (run.per_step != NULL) run.per_step[step] = run.tally;
  }
  if (run.config.print_time) fprintf(stderr, "steps_ns: %" PRId64 "\n", NowNs() - begin_ns);
  BackwardThreadStop(&run.backward);
  Tally teardown = {{0}};
  const bool is_right = run.config.host_only || FinishDevice(&run, &teardown);
  if (run.config.host_only) printf("loss: %" PRId64 "\n", run.host.loss);
  if (run.config.print_counts) PrintCounts(&run, &setup, &teardown);
  printf("train_loop: %u steps done\n", run.config.steps);
  free(run.per_step);
  HostModelDestroy(&run.host);
  return is_right ? 0 : 1;
}
