#pragma once
// The packets of one Perfetto sequence: framing, interning, and what stands before the events.
//
// Purpose: every packet goes through Begin and End, which add the sequence, its flags and what was
// interned on the way; a text is written once, with the packet that first needs it.
// Thread rule: one object, one thread. Memory: one packet buffer, one entry per distinct text.
// Failure rule: errors stay in the OutputFile.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "collector/model/cycle.h"
#include "collector/writers/output_file.h"
#include "collector/writers/perfetto_proto.h"

namespace stepagent::writers {

class PerfettoPackets {
 public:
  // `part` of a cycle that is in several files, from 0.
  PerfettoPackets(const model::Cycle& cycle, OutputFile& file, size_t part);

  // A packet without and with a moment on the session's clock.
  void Begin();
  void Begin(model::TimeNs at);
  // `flags` of pf::kFlag…
  void End(uint32_t flags);
  // A packet that needs the sequence's state and whose own `bytes` are known before they are
  // written: from what BeginWhole returns on, to where EndWhole is told. All its texts are interned
  // before. The fast path of device work: no length is guessed and no byte moved.
  [[nodiscard]] char* BeginWhole(model::TimeNs at, size_t bytes);
  void EndWhole(char* at);
  ProtoBuffer& out() { return buffer_; }
  // Content of the packet's InternedData, for messages of other shapes than {iid, name}.
  ProtoBuffer& interned() { return interned_; }
  // The number of a text within one of pf::kInterned… whose entries are {iid, text}. Between Begin
  // and End.
  [[nodiscard]] uint64_t Intern(uint32_t space, std::string_view text);
  // The same for a literal of the program, by its address: no hash of its text at each event.
  [[nodiscard]] uint64_t InternLiteral(uint32_t space, const char* literal) {
    Literal& known = literals_[(reinterpret_cast<uintptr_t>(literal) >> 2) % kLiterals];
    if (known.text != literal || known.space != space) [[unlikely]] {
      known = {literal, space, Intern(space, literal)};
    }
    return known.iid;
  }

  void WriteHeader();
  void WriteClocks(model::TimeNs at, bool is_first);
  void Flush();

  // The same number for the same thing of the same session, another for everything else.
  [[nodiscard]] uint64_t TrackUuid(std::string_view role, uint64_t number) const;
  [[nodiscard]] uint64_t process_uuid() const { return TrackUuid("process", 0); }
  [[nodiscard]] uint64_t events() const { return events_; }
  void CountEvent() { ++events_; }
  // The last moment of a packet so far, or of what `ReachesTo` was told.
  [[nodiscard]] model::TimeNs latest() const { return latest_; }
  void ReachesTo(model::TimeNs at) { latest_ = std::max(latest_, at); }

 private:
  void Attribute(std::string_view key, std::string_view text);
  void Attribute(std::string_view key, int64_t number);
  void WriteUuid();
  void WriteAttributes();
  void WriteGpus();
  void WriteGpu(int32_t ordinal);
  void WriteProcess();
  void WriteLossMark();

  const model::Cycle& cycle_;
  OutputFile& file_;
  const size_t part_;
  ProtoBuffer buffer_, interned_;
  size_t packet_ = 0;
  uint64_t events_ = 0;
  model::TimeNs latest_ = 0;
  const uint32_t sequence_;
  std::string needs_state_;  // the end of a packet: its sequence, and that it needs its state
  struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  using Texts = std::unordered_map<std::string, uint64_t, TextHash, std::equal_to<>>;
  std::map<uint32_t, Texts> texts_;  // by space, some seven of them
  static constexpr size_t kLiterals = 64;
  struct Literal {
    const char* text = nullptr;
    uint32_t space = 0;
    uint64_t iid = 0;
  };
  Literal literals_[kLiterals];
};

}  // namespace stepagent::writers
