#include "collector/spool/first_hello.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "nlohmann/json.hpp"

#include "collector/model/batch_head.h"
#include "collector/spool/names.h"
#include "collector/spool/raw_file.h"
#include "collector/spool/read_at.h"
#include "proto/crc32c.h"
#include "proto/limits.h"
#include "proto/settings.h"

namespace stepagent::spool {
namespace {

using Json = nlohmann::json;

bool IsType(const RawFrame& frame, proto::FrameType type) {
  return frame.header.type == static_cast<uint8_t>(type);
}

// A payload of another kind may parse as a Hello; none but a Hello has all of these.
bool IsHello(const std::string& payload, v1::Hello* hello) {
  return hello->ParseFromString(payload) && hello->protocol() != 0 && hello->pid() != 0 &&
         !hello->identity().session().empty();
}

// The first frame by its checksum alone, whatever else its header says. `next`: where the first
// whole frame begins, should the length be what is damaged.
std::optional<std::string> MendFirst(const std::string& path, uint64_t next) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  char head[proto::kFrameHeaderBytes];
  std::optional<std::string> mended;
  if (ReadAt(fd, 0, head, sizeof head) == sizeof head) {
    uint32_t length = 0, crc = 0;
    std::memcpy(&length, head + 8, sizeof length);
    std::memcpy(&crc, head + 12, sizeof crc);
    const uint64_t until_next = next > sizeof head ? next - sizeof head : 0;
    for (const uint64_t bytes : {uint64_t{length}, until_next}) {
      if (bytes == 0 || bytes > proto::kMaxFrameBytes || mended) continue;
      std::string payload(bytes, '\0');
      if (ReadAt(fd, sizeof head, payload.data(), bytes) == bytes &&
          proto::Crc32c(payload.data(), bytes) == crc) {
        mended = std::move(payload);
      }
    }
  }
  close(fd);
  return mended;
}

void SetList(const std::string& text, google::protobuf::RepeatedPtrField<std::string>* list) {
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (!word.empty() && word != "none") *list->Add() = word;
  }
}

void SetSchedule(const std::string& text, v1::Hello* hello) {
  std::string why;
  const auto given = proto::ParseSchedule(text, &why);
  if (!given) return;
  v1::Schedule* schedule = hello->mutable_schedule();
  schedule->set_skip_first(given->skip_first);
  schedule->set_wait(given->wait);
  schedule->set_warmup(given->warmup);
  schedule->set_active(given->active);
  schedule->set_repeat(given->repeat);
  schedule->set_skip_first_wait(given->skip_first_wait);
}

void SetIdentity(const Json& session, v1::Hello* hello) {
  v1::Identity* identity = hello->mutable_identity();
  identity->set_run(session.value("run", ""));
  identity->set_session(session.value("id", ""));
  identity->set_host(session.value("host", ""));
  const bool is_ours = session.value("rank_source", "") == "assigned";
  identity->set_rank(is_ours ? -1 : session.value("rank", -1));
  hello->set_pid(session.value("pid", 0U));
  hello->set_exe(session.value("exe", ""));
  hello->set_exe_path(session.value("exe_path", ""));
  hello->set_title(session.value("title", ""));
  for (const std::string& word : session.value("argv", std::vector<std::string>())) {
    hello->add_argv(word);
  }
  hello->set_rank_source(session.value("rank_source", ""));
  hello->set_agent_version(session.value("agent_version", ""));
  hello->mutable_clock()->set_base_unix_ns(session.value("start_unix_ns", int64_t{0}));
  const auto number = [&session](const char* key) {
    const auto it = session.find(key);
    return it != session.end() && it->is_number_integer() ? it->get<int32_t>() : -1;
  };
  hello->set_world_size(number("world_size"));
  hello->set_local_rank(number("local_rank"));
  if (const auto it = session.find("cuda_visible_devices");
      it != session.end() && it->is_string()) {
    hello->set_cuda_visible_devices(it->get<std::string>());
    hello->set_has_cuda_visible_devices(true);
  }
  for (const auto& [name, label] : session.value("labels", std::map<std::string, std::string>())) {
    (*hello->mutable_labels())[name] = label;
  }
}

// What the collector wrote down of the Hello when it came.
bool FromSessionJson(const std::string& raw_path, v1::Hello* hello) {
  const auto folder = std::filesystem::path(raw_path).parent_path();
  std::ifstream file(folder / std::string(kSessionJsonName));
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object()) return false;
  try {
    SetIdentity(json.at("session"), hello);
    const auto settings = json.at("settings").get<std::map<std::string, std::string>>();
    const auto value = [&settings](const char* name) {
      const auto it = settings.find(name);
      return it == settings.end() ? std::string() : it->second;
    };
    hello->mutable_settings()->insert(settings.begin(), settings.end());
    hello->set_step_source(value("step"));
    hello->set_step_extent(value("step-extent"));
    SetSchedule(value("schedule"), hello);
    SetList(value("formats"), hello->mutable_formats());
    SetList(value("redact"), hello->mutable_redact());
    SetList(value("activities"), hello->mutable_activities());
    SetList(value("require"), hello->mutable_require());
  } catch (const Json::exception&) {
    return false;  // somebody else's idea of a session.json
  }
  return !hello->identity().session().empty();
}

void FromBatch(const v1::Batch& batch, v1::Hello* hello) {
  *hello->mutable_identity() = batch.identity();
  hello->set_rank_source(batch.identity().rank() < 0 ? "none" : "");
  hello->set_world_size(-1);
  hello->set_local_rank(-1);
}

// Any pair of stamps tells the wall clock at the session's begin.
void SetBase(const v1::Batch& batch, v1::Hello* hello) {
  const auto& samples = batch.clock_samples();
  if (hello->clock().base_unix_ns() != 0 || samples.host_ns().empty() ||
      samples.real_ns().empty()) {
    return;
  }
  const auto real = static_cast<uint64_t>(samples.real_ns(0));
  const auto host = static_cast<uint64_t>(samples.host_ns(0));
  hello->mutable_clock()->set_base_unix_ns(static_cast<int64_t>(real - host));
}

// The frames behind a first one that is no Hello.
class Search {
 public:
  Search(const std::string& path, FirstHello* found) : path_(path), found_(found) {}

  [[nodiscard]] std::string Run(RawReader* reader, RawFrame* frame, bool has_frame) {
    for (; has_frame; has_frame = reader->Next(frame)) {
      if (IsType(*frame, proto::FrameType::kHello) && IsHello(frame->payload, &found_->hello)) {
        found_->payload = frame->payload;
        return Say("who and which settings are as its Hello at byte " +
                   std::to_string(reader->frame_at()) + " says");
      }
      model::BatchHead head;
      if (!IsType(*frame, proto::FrameType::kBatch) ||
          !model::ReadBatchHead(frame->payload, &head) ||
          head.fields.identity().session().empty()) {
        continue;
      }
      if (!has_batch_) FromBatch(head.fields, &by_batch_);
      has_batch_ = true;
      SetBase(head.fields, &by_batch_);
    }
    return WithoutHello();
  }

 private:
  std::string Say(const std::string& what) {
    found_->problem = path_ + ": its first frame, the session's Hello, is damaged: " + what;
    return {};
  }
  std::string WithoutHello() {
    if (!has_batch_) return path_ + ": holds no Hello and no batch of a session that can be read";
    v1::Hello noted;
    if (FromSessionJson(path_, &noted) &&
        noted.identity().session() == by_batch_.identity().session()) {
      found_->hello = std::move(noted);
      return Say("who and which settings are as session.json says");
    }
    found_->hello = by_batch_;
    return Say(
        "the program, its process, settings, schedule and labels are not known; that it is "
        "session " +
        by_batch_.identity().session() + " its batches say");
  }

  const std::string path_;
  FirstHello* found_;
  v1::Hello by_batch_;
  bool has_batch_ = false;
};

}  // namespace

std::string FindHello(const std::string& raw_path, FirstHello* found) {
  RawReader reader;
  std::string error = reader.Open(raw_path);
  if (!error.empty()) return error;
  RawFrame frame;
  const bool has_frame = reader.Next(&frame);
  if (has_frame && reader.frame_at() == 0 && IsType(frame, proto::FrameType::kHello) &&
      found->hello.ParseFromString(frame.payload)) {
    found->payload = std::move(frame.payload);
    return {};
  }
  const uint64_t next = has_frame ? reader.frame_at() : 0;
  if (auto payload = MendFirst(raw_path, next); payload && IsHello(*payload, &found->hello)) {
    found->payload = *std::move(payload);
    found->is_mended = true;
    found->problem = raw_path +
                     ": the header of its first frame is damaged; the session's Hello "
                     "in it is whole and was read";
    return {};
  }
  found->hello.Clear();
  return Search(raw_path, found).Run(&reader, &frame, has_frame);
}

}  // namespace stepagent::spool
