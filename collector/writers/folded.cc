#include "collector/writers/folded.h"

#include <array>

#include "collector/writers/folded_profile.h"
#include "collector/writers/output_file.h"

namespace stepagent::writers {
namespace {

struct Figure {
  const char* file;
  uint64_t ProfileValues::*value;
};
constexpr std::array<Figure, 3> kFigures = {{
    {"trace.folded", &ProfileValues::device_ns},
    {"trace.launches.folded", &ProfileValues::items},
    {"trace.api_ns.folded", &ProfileValues::call_ns},
}};

// ';' separates frames and a line is one path: neither may be inside a frame.
void AppendFrame(std::string& line, std::string_view frame) {
  if (!line.empty()) line += ';';
  for (const char c : frame) {
    const bool is_bad = c == ';' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    line += is_bad ? '_' : c;
  }
}

std::string Text(const Profile& profile, uint64_t ProfileValues::*figure, uint64_t* lines) {
  std::map<std::string, uint64_t> sums;
  for (const auto& [key, values] : profile.samples()) {
    if (values.*figure == 0) continue;
    std::string line;
    for (const ProfileFrame& frame : profile.paths()[key.path]) AppendFrame(line, frame.name);
    AppendFrame(line, key.call);
    if (!key.work.empty()) AppendFrame(line, key.work);
    sums[line] += values.*figure;
  }
  std::string text;
  for (const auto& [line, sum] : sums) text += line + " " + std::to_string(sum) + "\n";
  *lines = sums.size();
  return text;
}

}  // namespace

WriteResult FoldedWriter::Write(const model::Cycle& cycle, const WriteTarget& target) {
  const Profile profile(cycle);
  WriteResult result{true, "", {}};
  for (const Figure& figure : kFigures) {
    WrittenFile file{target.cycle_dir + "/" + figure.file, "folded", 0, 0, ""};
    const std::string text = Text(profile, figure.value, &file.events);
    const std::string error = WriteWholeFile(file.path, text, &file.bytes, &file.sha256);
    if (!error.empty()) return {false, error, result.files};
    result.files.push_back(std::move(file));
  }
  return result;
}

}  // namespace stepagent::writers
