// nvtx_loop: every way to say a range, and what the calls return.
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/parse.h"
#include "support/victim.h"

static const char kHelp[] =
    "nvtx_loop [KIND] [STEPS] [--returns] [--sleep-us N]: STEPS (10) ranges train_step of one "
    "kind\n"
    "  KIND: ascii wide ex ex_wide registered registered_wide default_ex domain domain_registered\n"
    "        empty_domain start_end threads marks unbalanced recursive all\n"
    "  --returns: print what each push and pop returned\n";

typedef struct Loop {
  bool prints_returns;
  nvtxDomainHandle_t domain, empty_domain;
  nvtxStringHandle_t registered, registered_wide;
} Loop;

static void Say(const Loop* loop, const char* call, int value) {
  if (loop->prints_returns) printf("%s %d\n", call, value);
}

static nvtxEventAttributes_t Attributes(void) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = 3;
  attributes.colorType = NVTX_COLOR_ARGB;
  attributes.color = 0xff00ff00;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = 42;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = "train_step";
  return attributes;
}

// A child range of the default domain inside the step, so that depths differ.
static void Child(const Loop* loop) {
  Say(loop, "push inner", nvtxRangePushA("inner"));
  Say(loop, "pop inner", nvtxRangePop());
}

static void Ascii(const Loop* loop) {
  // A copy that is gone afterwards: the text counts, not the pointer.
  char* name = strdup("train_step");
  Say(loop, "push", nvtxRangePushA(name));
  memset(name, 'x', strlen(name));
  free(name);
  Child(loop);
  Say(loop, "pop", nvtxRangePop());
}

static void Wide(const Loop* loop) {
  Say(loop, "push wide", nvtxRangePushW(L"train_step"));
  Child(loop);
  Say(loop, "pop wide", nvtxRangePop());
}

static void PushEx(const Loop* loop, const nvtxEventAttributes_t* attributes) {
  Say(loop, "push ex", nvtxRangePushEx(attributes));
  Child(loop);
  Say(loop, "pop ex", nvtxRangePop());
}

static void Ex(const Loop* loop) {
  const nvtxEventAttributes_t attributes = Attributes();
  PushEx(loop, &attributes);
}

static void ExWide(const Loop* loop) {
  nvtxEventAttributes_t attributes = Attributes();
  attributes.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  attributes.message.unicode = L"train_step";
  PushEx(loop, &attributes);
}

static void DomainPush(const Loop* loop, nvtxDomainHandle_t domain,
                       const nvtxEventAttributes_t* attributes) {
  Say(loop, "push domain", nvtxDomainRangePushEx(domain, attributes));
  Child(loop);
  Say(loop, "pop domain", nvtxDomainRangePop(domain));
}

static void DefaultRegistered(const Loop* loop) {
  nvtxEventAttributes_t attributes = Attributes();
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = nvtxDomainRegisterStringA(NULL, "train_step");
  DomainPush(loop, NULL, &attributes);
}

static void RegisteredWide(const Loop* loop) {
  nvtxEventAttributes_t attributes = Attributes();
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = loop->registered_wide;
  DomainPush(loop, loop->domain, &attributes);
}

static void DefaultEx(const Loop* loop) {
  const nvtxEventAttributes_t attributes = Attributes();
  DomainPush(loop, NULL, &attributes);
}

static void Domain(const Loop* loop) {
  const nvtxEventAttributes_t attributes = Attributes();
  DomainPush(loop, loop->domain, &attributes);
}

static void DomainRegistered(const Loop* loop) {
  nvtxEventAttributes_t attributes = Attributes();
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = loop->registered;
  DomainPush(loop, loop->domain, &attributes);
}

static void EmptyDomain(const Loop* loop) {
  const nvtxEventAttributes_t attributes = Attributes();
  DomainPush(loop, loop->empty_domain, &attributes);
}

static void StartEnd(const Loop* loop) {
  const nvtxRangeId_t range = nvtxRangeStartA("train_step");
  Child(loop);
  nvtxRangeEnd(range);
}

static void* EndRange(void* range) {
  nvtxRangeEnd(*(nvtxRangeId_t*)range);
  return NULL;
}

// Begun here, ended by another thread, ended again, and an id nobody made.
static void Threads(const Loop* loop) {
  nvtxRangeId_t range = nvtxRangeStartA("train_step");
  Child(loop);
  pthread_t thread;
  Require(pthread_create(&thread, NULL, EndRange, &range) == 0, "pthread_create");
  pthread_join(thread, NULL);
  nvtxRangeEnd(range);
  nvtxRangeEnd(0x7fffffffffffff01u);
}

static void Marks(const Loop* loop) {
  const nvtxEventAttributes_t attributes = Attributes();
  nvtxMarkA("mark");
  nvtxMarkW(L"wide mark");
  nvtxMarkEx(&attributes);
  nvtxDomainMarkEx(loop->domain, &attributes);
}

// More pops than pushes; the extra ones must be refused and harm nothing.
static void Unbalanced(const Loop* loop) {
  Say(loop, "pop at depth 0", nvtxRangePop());
  Say(loop, "push", nvtxRangePushA("train_step"));
  Say(loop, "pop of another domain", nvtxDomainRangePop(loop->domain));
  Say(loop, "pop", nvtxRangePop());
  Say(loop, "pop at depth 0", nvtxRangePop());
}

static void Recursive(const Loop* loop) {
  Say(loop, "push", nvtxRangePushA("train_step"));
  Ascii(loop);
  Say(loop, "pop", nvtxRangePop());
}

typedef void (*StepFunction)(const Loop*);
static const char* const kKinds[] = {"ascii",        "wide",       "ex",
                                     "ex_wide",      "registered", "registered_wide",
                                     "default_ex",   "domain",     "domain_registered",
                                     "empty_domain", "start_end",  "threads",
                                     "marks",        "unbalanced", "recursive",
                                     "all",          NULL};
static const StepFunction kSteps[] = {
    Ascii,          Wide,      Ex,     ExWide,           DefaultRegistered,
    RegisteredWide, DefaultEx, Domain, DomainRegistered, EmptyDomain,
    StartEnd,       Threads,   Marks,  Unbalanced,       Recursive};
enum { kStepKinds = sizeof kSteps / sizeof *kSteps };

int main(int argc, char** argv) {
  HelpOption(argc, argv, kHelp);
  Loop loop = {0};
  uint64_t steps = 10, sleep_us = 0;
  int kind = 0, position = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--returns") == 0) {
      loop.prints_returns = true;
    } else if (strcmp(argv[i], "--sleep-us") == 0 && i + 1 < argc) {
      sleep_us = ParseNumber("--sleep-us", argv[++i], 0, 1000000000);
    } else if (position++ == 0) {
      kind = ParseChoice("KIND", argv[i], kKinds);
    } else {
      steps = ParseNumber("STEPS", argv[i], 0, UINT64_MAX);
    }
  }
  loop.domain = nvtxDomainCreateA("trainer");
  loop.empty_domain = nvtxDomainCreateA("");
  loop.registered = nvtxDomainRegisterStringA(loop.domain, "train_step");
  loop.registered_wide = nvtxDomainRegisterStringW(loop.domain, L"train_step");
  nvtxNameCategoryA(3, "phase");
  nvtxNameOsThreadA((uint32_t)gettid(), "looper");
  for (uint64_t step = 0; step < steps; step++) {
    const bool is_all = kind == kStepKinds;
    for (int i = is_all ? 0 : kind; i < (is_all ? kStepKinds : kind + 1); i++) kSteps[i](&loop);
    if (sleep_us > 0) usleep((useconds_t)sleep_us);
  }
  nvtxDomainDestroy(loop.domain);
  printf("nvtx_loop: %s, %llu steps done\n", kKinds[kind], (unsigned long long)steps);
  return 0;
}
