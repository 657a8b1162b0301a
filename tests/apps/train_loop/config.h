// The options of train_loop.
//
// Thread rule: read only after ParseConfig.
// Failure rule: a bad option ends the program with status 2 and one line.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { kMaxLayers = 4096, kMaxLag = 63 };

typedef enum GraphMode { kGraphCapture, kGraphBuild, kGraphNone } GraphMode;

typedef enum RunMode { kRun, kPrintExpected } RunMode;

typedef struct Config {
  RunMode mode;
  GraphMode graph;
  uint32_t steps;
  uint32_t layers;
  uint32_t elements;
  uint32_t lag;        // steps the host may run ahead of the device; 0 synchronises each step
  uint32_t sleep_us;   // host time spent in load_batch beside its work
  uint32_t kernel_us;  // least duration of every kernel; 0 leaves it to the device
  uint32_t seed;
  uint32_t device;
  bool host_only;
  bool print_counts;
  bool print_time;
} Config;

Config ParseConfig(int argc, char** argv);
