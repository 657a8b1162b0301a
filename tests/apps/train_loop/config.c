#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

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
    "  --print-counts     after the run, print what it did as JSON\n"
    "  --print-expected   print what a run with these options does as JSON, and end\n";

enum {
  kOptSteps = 256, kOptKernels, kOptElements, kOptSleep, kOptKernelUs, kOptLag, kOptGraph,
  kOptSeed, kOptDevice, kOptHostOnly, kOptCounts, kOptExpected, kOptHelp
};

static const struct option kOptions[] = {
    {"steps", required_argument, NULL, kOptSteps},
    {"kernels", required_argument, NULL, kOptKernels},
    {"elements", required_argument, NULL, kOptElements},
    {"sleep-us", required_argument, NULL, kOptSleep},
    {"kernel-us", required_argument, NULL, kOptKernelUs},
    {"lag", required_argument, NULL, kOptLag},
    {"graph", required_argument, NULL, kOptGraph},
    {"seed", required_argument, NULL, kOptSeed},
    {"device", required_argument, NULL, kOptDevice},
    {"host-only", no_argument, NULL, kOptHostOnly},
    {"print-counts", no_argument, NULL, kOptCounts},
    {"print-expected", no_argument, NULL, kOptExpected},
    {"help", no_argument, NULL, kOptHelp},
    {NULL, 0, NULL, 0},
};

static void ApplyOption(Config* config, int option, const char* name) {
  static const char* const kGraphModes[] = {"capture", "build", "none", NULL};
  switch (option) {
    case kOptSteps: config->steps = ParseNumber(name, optarg, 0, 100000000); break;
    case kOptKernels: config->layers = ParseNumber(name, optarg, 1, kMaxLayers); break;
    case kOptElements: config->elements = ParseNumber(name, optarg, 1, 1 << 24); break;
    case kOptSleep: config->sleep_us = ParseNumber(name, optarg, 0, 3600000000u); break;
    case kOptKernelUs: config->kernel_us = ParseNumber(name, optarg, 0, 1000000000); break;
    case kOptLag: config->lag = ParseNumber(name, optarg, 0, kMaxLag); break;
    case kOptGraph: config->graph = (GraphMode)ParseChoice(name, optarg, kGraphModes); break;
    case kOptSeed: config->seed = ParseNumber(name, optarg, 0, UINT32_MAX); break;
    case kOptDevice: config->device = ParseNumber(name, optarg, 0, 255); break;
    case kOptHostOnly: config->host_only = true; break;
    case kOptCounts: config->print_counts = true; break;
    case kOptExpected: config->mode = kPrintExpected; break;
    case kOptHelp: fputs(kHelp, stdout); exit(0);
    default: exit(2);
  }
}

Config ParseConfig(int argc, char** argv) {
  Config config = {
      .steps = 12, .layers = 4, .elements = 16384, .sleep_us = 10000, .seed = 1,
  };
  int option, index = 0;
  while ((option = getopt_long(argc, argv, "", kOptions, &index)) != -1) {
    ApplyOption(&config, option, option >= kOptSteps ? kOptions[index].name : "");
  }
  if (optind != argc) {
    fprintf(stderr, "unexpected argument %s\n", argv[optind]);
    exit(2);
  }
  return config;
}
