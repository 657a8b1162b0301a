// What --redact keeps from leaving the process: the key, and when it holds.
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/core/clock.h"

namespace stepagent::agent {
namespace {

std::string KeyFromEnvironment(char* const* environment) {
  const std::string_view name = proto::kRedactKeyVariable;
  for (char* const* e = environment; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry(*e);
    if (entry.starts_with(name) && entry.size() > name.size() + 1 && entry[name.size()] == '=') {
      return std::string(entry.substr(name.size() + 1));
    }
  }
  return {};
}

// Random per boot, readable by every process of the machine and in no file of ours.
std::string BootId() {
  char text[64] = {};
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
}

proto::HashKey RandomKey() {
  proto::HashKey key;
  if (getrandom(&key, sizeof key, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof key)) return key;
  // Before the kernel has entropy: better guessable than telling.
  key.low = static_cast<uint64_t>(core::HostClock::Ticks());
  key.high = core::HostClock::MonotonicNs() ^ (static_cast<uint64_t>(getpid()) << 32);
  return key;
}

}  // namespace

// The given one; else, where ranks share a run without our launcher, one that they can all work
// out; else a random one.
void Agent::ReadRedactKey() {
  const std::string given = KeyFromEnvironment(environment_);
  const std::string boot = given.empty() && identity_.run_given ? BootId() : std::string();
  if (!given.empty()) {
    redact_key_ = proto::KeyFromText(given);
  } else if (!boot.empty()) {
    redact_key_ = proto::KeyFromText(boot + identity_.run);
  } else {
    redact_key_ = RandomKey();
  }
}

void Agent::ApplyRedaction() {
  const uint32_t before = redactor_ == nullptr ? 0 : redactor_->bits();
  const uint32_t bits = proto::RedactBits(capture_.redact) | before;
  if (bits != before) {
    if (drainer_ != nullptr) drainer_->builder().SetRedactor(nullptr);
    redactor_ = std::make_unique<drain::Redactor>(bits, redact_key_);
  }
  if (drainer_ != nullptr) drainer_->builder().SetRedactor(redactor_.get());
}

std::string Agent::AddRedaction(proto::Settings* settings) const {
  const uint32_t before = redactor_ == nullptr ? 0 : redactor_->bits();
  const uint32_t bits = proto::RedactBits(settings->redact) | before;
  settings->redact = proto::RedactWords(bits);
  if (bits == before || session_begun_.load(std::memory_order_acquire) == 0) return {};
  return "--redact: this session was begun without all of '" +
         proto::SettingsText(*settings).at("redact") +
         "', and what it wrote stays; set STEPAGENT_REDACT when the program starts";
}

proto::Settings Agent::Redacted(const proto::Settings& settings) const {
  proto::Settings shown = settings;
  if (redactor_ == nullptr) return shown;
  shown.redact = proto::RedactWords(redactor_->bits());
  shown.out = redactor_->Path(shown.out);
  shown.log_file = redactor_->Path(shown.log_file);
  if (shown.collector != "auto") shown.collector = redactor_->Path(shown.collector);
  shown.step.name = redactor_->Range(shown.step.name);
  shown.step.domain = redactor_->Range(shown.step.domain);
  shown.labels.clear();
  for (const auto& [key, value] : settings.labels) {
    shown.labels[redactor_->LabelKey(key)] = redactor_->LabelValue(value);
  }
  shown.given.clear();
  return shown;
}

}  // namespace stepagent::agent
