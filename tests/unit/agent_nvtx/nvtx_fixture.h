#pragma once
// What the NVTX tests share: the real client of the header, attached to our handlers in-process.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <string>
#include <vector>

#include "agent/core/clock.h"
#include "agent/core/name_table.h"
#include "agent/core/phase_words.h"
#include "agent/core/ring_registry.h"
#include "agent/core/step_gate.h"
#include "agent/nvtx/nvtx_entry.h"

namespace stepagent::nvtx {

using Match = StepMatch::Kind;

struct Seen {
  core::RecordKind kind;
  std::string text, domain;
  uint64_t range_id, ticks;
  uint32_t category, color, tid;
};

class NvtxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    core::HostClock::Start();
    ASSERT_TRUE(core::MapPhaseWords());
    static const int attached =
        Attach(reinterpret_cast<void*>(&NVTX_VERSIONED_IDENTIFIER(nvtxGetExportTable)));
    ASSERT_EQ(attached, 1);
  }
  void SetUp() override {
    core::Gate().Configure({.max_cycles = 0});
    SetStepMatch({});
    ForgetAll();
    Take();
    core::RingRegistry::Reclaim();
  }
  void TearDown() override {
    core::Gate().Configure({});
    SetStepMatch({});
    SetReviveHook(nullptr);
  }

  static void RecordAll() {
    ASSERT_EQ(core::Gate().ArmWhole(core::HostClock::Ticks()), core::StepGate::Verdict::kOk);
  }
  static void StepOn(const char* name, const char* domain = "", bool any = false) {
    SetStepMatch({Match::kExact, name, domain, any});
  }
  static void ArmActive(uint64_t active, uint64_t repeat = 1) {
    ASSERT_EQ(core::Gate().Arm({.active = active, .repeat = repeat}, core::HostClock::Ticks()),
              core::StepGate::Verdict::kOk);
  }
  // Steps the gate has counted since the test began.
  static uint64_t StepsCounted() {
    const auto shot = core::Gate().snapshot();
    return shot.process_index + (shot.step_open ? 1 : 0);
  }

  static std::vector<Seen> Take() {
    std::vector<Seen> all;
    core::RingRegistry::ForEach([&all](core::ThreadRing* ring) {
      for (auto span = ring->ring.Peek(); span.count != 0; span = ring->ring.Peek()) {
        for (uint32_t i = 0; i < span.count; ++i) {
          const core::Record& r = span.items[i];
          all.push_back({r.kind, std::string(core::NameTable::Text(r.name)),
                         std::string(core::NameTable::Text(r.domain)), r.range_id, r.begin_ticks,
                         r.category, r.color, ring->tid});
        }
        ring->ring.Consume(span.count);
      }
    });
    std::stable_sort(all.begin(), all.end(),
                     [](const Seen& a, const Seen& b) { return a.ticks < b.ticks; });
    core::Gate().TakeEvents([](const core::GateEvent&) {});
    return all;
  }

  static nvtxEventAttributes_t Event() {
    nvtxEventAttributes_t event = {};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    return event;
  }
  static nvtxEventAttributes_t Ascii(const char* text) {
    nvtxEventAttributes_t event = Event();
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text;
    return event;
  }
  static nvtxEventAttributes_t Wide(const wchar_t* text) {
    nvtxEventAttributes_t event = Event();
    event.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    event.message.unicode = text;
    return event;
  }
  static nvtxEventAttributes_t Registered(nvtxStringHandle_t handle) {
    nvtxEventAttributes_t event = Event();
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = handle;
    return event;
  }
};

}  // namespace stepagent::nvtx
