#include "config.h"

#include <stddef.h>

#include "support/parse.h"

static const char kHelp[] =
    "train_loop [options]: trains a small model step by step; NVTX range train_step per step\n"
    "  --steps N          steps, default 12\n"
    "  --kernels N        layers; a step runs 4N+1 kernels, N of them in one graph; default 4\n"
    "  --elements N       elements per layer, default 16384\n"
    "  --sleep-us N       host sleep per step, default 10000\n"
    "  --kernel-us N      least duration of each kernel, default 0: as the device takes\n"
    "  --lag N            let the host run N steps ahead, default 0: synchronise each step\n"
    "  --graph MODE       optimizer graph: capture (default), build, none\n"
    "  --seed N           seed of weights and batches, default 1\n"
    "  --device N         device ordinal, default 0\n"
    "  --host-only        use no device even if there is one\n"
    "  --print-time       after the run, print how long the steps took, to stderr\n"
    "  --print-counts     after the run, print what it did as JSON\n"
    "  --print-expected   print what a run with these options does as JSON, and end\n";

Config ParseConfig(int argc, char** argv) {
  static const char* const kGraphModes[] = {"capture", "build", "none", NULL};
  Config config = {.steps = 12, .layers = 4, .elements = 16384, .sleep_us = 10000, .seed = 1};
  int graph = kGraphCapture;
  bool prints_expected = false;
  const OptionSpec options[] = {
      {"steps", kOptionNumber32, &config.steps, 0, 100000000, NULL},
      {"kernels", kOptionNumber32, &config.layers, 1, kMaxLayers, NULL},
      {"elements", kOptionNumber32, &config.elements, 1, 1 << 24, NULL},
      {"sleep-us", kOptionNumber32, &config.sleep_us, 0, 3600000000u, NULL},
      {"kernel-us", kOptionNumber32, &config.kernel_us, 0, 1000000000, NULL},
      {"lag", kOptionNumber32, &config.lag, 0, kMaxLag, NULL},
      {"graph", kOptionChoice, &graph, 0, 0, kGraphModes},
      {"seed", kOptionNumber32, &config.seed, 0, UINT32_MAX, NULL},
      {"device", kOptionNumber32, &config.device, 0, 255, NULL},
      {"host-only", kOptionFlag, &config.host_only, 0, 0, NULL},
      {"print-time", kOptionFlag, &config.print_time, 0, 0, NULL},
      {"print-counts", kOptionFlag, &config.print_counts, 0, 0, NULL},
      {"print-expected", kOptionFlag, &prints_expected, 0, 0, NULL},
      {NULL, kOptionFlag, NULL, 0, 0, NULL},
  };
  ParseOnlyOptions(argc, argv, options, kHelp);
  config.graph = (GraphMode)graph;
  config.mode = prints_expected ? kPrintExpected : kRun;
  return config;
}
