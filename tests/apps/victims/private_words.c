// private_words: says a word in every way a program can, so that a test can look for what is left.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <wchar.h>

#include "support/device.h"
#include "support/victim.h"

static const char kHelp[] =
    "private_words WORD [STEPS]: STEPS (6) ranges WORD_step; WORD in ranges (ascii, wide,\n"
    "registered), marks, domains, categories, thread names, kernels and their template arguments\n";

enum { kTextBytes = 256, kKernels = 4 };

typedef struct Words {
  const char* word;
  nvtxDomainHandle_t domain;
  nvtxStringHandle_t registered, registered_wide;
  CUmodule module;
  CUfunction kernels[kKernels];
} Words;

static const char* Text(const char* format, const Words* words) {
  static char text[kTextBytes];
  snprintf(text, sizeof text, format, words->word);
  return text;
}

static const wchar_t* WideText(const wchar_t* format, const Words* words) {
  static wchar_t text[kTextBytes];
  swprintf(text, kTextBytes, format, words->word);
  return text;
}

static nvtxEventAttributes_t Registered(nvtxStringHandle_t handle) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = 7;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = handle;
  return attributes;
}

static void NameThings(Words* words) {
  prctl(PR_SET_NAME, Text("%s", words));
  nvtxNameCategoryA(7, Text("%s_category", words));
  nvtxNameOsThreadA(1, Text("%s_thread", words));
  words->domain = nvtxDomainCreateA(Text("%s_domain", words));
  words->registered = nvtxDomainRegisterStringA(words->domain, Text("%s_registered", words));
  words->registered_wide =
      nvtxDomainRegisterStringW(words->domain, WideText(L"%s_registered_wide", words));
}

// A C name, two instances of a template, and what a just-in-time compiler makes up.
static void LoadKernels(const Driver* driver, Words* words) {
  static const char kNoText[] = "not a text: any name is found in it";
  char names[kKernels][kTextBytes];
  snprintf(names[0], kTextBytes, "%s_kernel", words->word);
  snprintf(names[1], kTextBytes, "_Z5scaleI%zu%sEvPf", strlen(words->word), words->word);
  snprintf(names[2], kTextBytes, "_ZN%zu%s5applyIfLi4EEEvPT_", strlen(words->word), words->word);
  snprintf(names[3], kTextBytes, "triton_poi_fused_%s_0", words->word);
  CU(driver, cuModuleLoadData, (&words->module, kNoText));
  for (int i = 0; i < kKernels; i++) {
    CU(driver, cuModuleGetFunction, (&words->kernels[i], words->module, names[i]));
  }
}

static void Step(const Driver* driver, const Words* words) {
  nvtxRangePushA(Text("%s_step", words));
  nvtxRangePushA(Text("%s_ascii", words));
  nvtxRangePushW(WideText(L"%s_wide", words));
  nvtxMarkA(Text("%s_mark", words));
  nvtxEventAttributes_t attributes = Registered(words->registered);
  nvtxDomainRangePushEx(words->domain, &attributes);
  attributes = Registered(words->registered_wide);
  const nvtxRangeId_t id = nvtxDomainRangeStartEx(words->domain, &attributes);
  for (int i = 0; driver != NULL && i < kKernels; i++) {
    CU(driver, cuLaunchKernel, (words->kernels[i], 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
  }
  if (driver != NULL) CU(driver, cuCtxSynchronize, ());
  nvtxDomainRangeEnd(words->domain, id);
  nvtxDomainRangePop(words->domain);
  nvtxRangePop();
  nvtxRangePop();
  nvtxRangePop();
}

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  if (argc < 2) {
    fputs(kHelp, stderr);
    return 2;
  }
  Words words = {.word = argv[1]};
  const int steps = argc > 2 ? atoi(argv[2]) : 6;
  char reason[kTextBytes];
  Device device;
  const bool has_device = DeviceOpen(&device, 0, 0, reason, sizeof reason);
  NameThings(&words);
  if (has_device) LoadKernels(&device.driver, &words);
  for (int i = 0; i < steps; i++) Step(has_device ? &device.driver : NULL, &words);
  if (has_device) DeviceClose(&device);
  printf("steps %d\n", steps);
  return 0;
}
