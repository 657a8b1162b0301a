#include "collector/cli/convert_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "collector/launch/progress_bar.h"
#include "collector/spool/names.h"
#include "collector/writers/writer.h"

namespace stepagent::cli {
namespace {

namespace fs = std::filesystem;

// Where the parts of a cut trace lie, seen from the folder of the first.
constexpr const char* kWork = "t";
constexpr const char* kStdout = "-";

// trace.launches.folded beside x.folded is x.launches.folded; part 1 of x.json.gz x.part1.json.gz.
std::string Beside(const std::string& out, const fs::path& first, const fs::path& file) {
  const std::string folder = file.parent_path().filename().string();
  const size_t name_at = out.rfind('/') + 1;  // 0 where there is none
  if (folder != kWork) {
    const size_t dot = std::min(out.find('.', name_at + 1), out.size());
    return out.substr(0, dot) + folder.substr(std::string(kWork).size()) + out.substr(dot);
  }
  const std::string name = file.filename().string(), first_name = first.filename().string();
  if (name == first_name) return out;
  const std::string extension =
      first_name.substr(std::min(first_name.find('.'), first_name.size()));
  std::string base = out;
  if (base.ends_with(extension)) base.resize(base.size() - extension.size());
  return base + name.substr(std::min(name.find('.'), name.size()));
}

constexpr size_t kCopyBytes = 1 << 16;

// OUT itself where it is a folder, else the nearest folder above it that is there.
std::string NearestFolder(const std::string& out) {
  std::error_code error;
  if (out == kStdout) return fs::temp_directory_path(error).string();
  fs::path path = fs::absolute(out, error).lexically_normal();
  while (!fs::exists(fs::symlink_status(path, error)) && path.has_relative_path()) {
    path = path.parent_path();
  }
  return path.string();
}

// Never replaces: a link where the file system has them, else a rename to what is not there.
std::error_code GiveName(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::create_hard_link(from, to, error);
  if (error && error != std::errc::file_exists && !fs::exists(to)) {
    error.clear();
    fs::rename(from, to, error);
  }
  return error;
}

}  // namespace

ConvertOutput::ConvertOutput(std::string format, std::string out)
    : format_(std::move(format)), out_(std::move(out)) {}

ConvertOutput::~ConvertOutput() {
  std::error_code ignored;
  if (!stage_.empty()) fs::remove_all(stage_, ignored);
}

void ConvertOutput::FailOut(const std::string& line) {
  error_ = line;
  is_out_unusable_ = true;
}

bool ConvertOutput::MakeStage(const std::string& beside) {
  if (!stage_.empty()) return true;
  std::string pattern = beside + "/.stepagent-convert-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    FailOut(out_ + ": create: " + std::strerror(errno));
    return false;
  }
  stage_ = pattern;
  return true;
}

void ConvertOutput::Take(SourceCycle source) {
  if (!error_.empty()) return;
  const bool is_of_run = !source.session.empty();
  if (!first_ && !has_several_ && !is_of_run) {
    first_ = std::move(source);
    return;
  }
  has_several_ = true;
  if (out_ == kStdout) {
    return FailOut(
        "-o -: the input holds several cycles, and stdout takes one file; name a cycle, "
        "or a folder for all");
  }
  if (first_) WriteNumbered(*first_);
  first_.reset();
  if (error_.empty()) WriteNumbered(source);
}

void ConvertOutput::Finish() {
  if (first_ && error_.empty()) {
    std::error_code error;
    const bool is_into = out_ == kStdout || fs::is_directory(out_, error);
    is_into ? WriteInto(*first_, "", "") : WriteAs(*first_);
  }
  first_.reset();
  if (!error_.empty()) return;
  out_ == kStdout ? PublishToStdout() : Publish();
}

void ConvertOutput::PublishToStdout() {
  if (staged_.empty()) return;  // no cycle
  if (staged_.size() != 1) {
    return FailOut("-o -: " + format_ + " makes " + std::to_string(staged_.size()) +
                   " files of this cycle, and stdout takes one; name a file or a folder");
  }
  std::ifstream file(staged_.front().first, std::ios::binary);
  std::vector<char> block(kCopyBytes);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    const auto bytes = static_cast<size_t>(file.gcount());
    if (std::fwrite(block.data(), 1, bytes, stdout) != bytes)
      break;  // said by who ends the program
  }
}

void ConvertOutput::WriteNumbered(const SourceCycle& source) {
  const std::string name = "/" + spool::CycleName(source.cycle.index);
  if (source.session.empty()) return WriteInto(source, name, name);
  WriteInto(source, "/traces" + name, "/sessions/" + source.session + name);
}

std::vector<std::string> ConvertOutput::WriteFiles(const SourceCycle& source,
                                                   const std::string& traces,
                                                   const std::string& folder) {
  const model::Cycle& cycle = source.cycle;
  const std::string what = source.session.empty() ? "" : source.session + " ";
  launch::ProgressBar bar(STDERR_FILENO, what + "cycle " + std::to_string(cycle.index),
                          launch::ProgressBar::Clock::now());
  const writers::WriteTarget target{
      .traces_dir = traces,
      .cycle_dir = folder,
      .trace_stem = spool::TraceStem(cycle.session, source.has_duplicate_rank, cycle.index),
      .progress = [&bar](uint64_t done, uint64_t total) {
        bar.Show(done, total, launch::ProgressBar::Clock::now());
      }};
  const writers::WriteResult result = writers::MakeWriter(format_)->Write(cycle, target);
  if (!result.ok) error_ = result.error;
  std::vector<std::string> files;
  for (const writers::WrittenFile& file : result.files) files.push_back(file.path);
  return files;
}

// `traces` and `folder` as seen from OUT.
void ConvertOutput::WriteInto(const SourceCycle& source, const std::string& traces,
                              const std::string& folder) {
  if (!MakeStage(NearestFolder(out_))) return;
  std::error_code error;
  for (const std::string& part : {traces, folder}) fs::create_directories(stage_ + part, error);
  if (error) {
    error_ = stage_ + folder + ": create: " + error.message();
    return;
  }
  for (std::string& file : WriteFiles(source, stage_ + traces, stage_ + folder)) {
    std::string target = out_ + file.substr(stage_.size());
    staged_.emplace_back(std::move(file), std::move(target));
  }
}

// The writers choose their own names; here they become OUT and what lies beside it.
void ConvertOutput::WriteAs(const SourceCycle& source) {
  const fs::path given(out_);
  if (!MakeStage(given.has_parent_path() ? given.parent_path().string() : ".")) return;
  const std::string work = stage_ + "/" + kWork;
  std::error_code error;
  fs::create_directories(work, error);
  const std::vector<std::string> written = WriteFiles(source, work, work);
  for (const std::string& path : written) {
    staged_.emplace_back(path, Beside(out_, written.front(), path));
  }
}

bool ConvertOutput::MakeFolderOf(const std::string& file, std::vector<std::string>* made) {
  std::vector<fs::path> missing;
  std::error_code error;
  for (fs::path folder = fs::path(file).parent_path();
       !folder.empty() && !fs::exists(folder, error); folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  for (; !missing.empty(); missing.pop_back()) {
    fs::create_directory(missing.back(), error);
    if (error) {
      FailOut(missing.back().string() + ": create: " + error.message());
      return false;
    }
    made->push_back(missing.back().string());
  }
  return true;
}

void ConvertOutput::Publish() {
  std::error_code error;
  for (const auto& [file, target] : staged_) {
    if (!fs::exists(fs::symlink_status(target, error))) continue;
    return FailOut(target + " exists already; nothing is replaced, and nothing was written");
  }
  std::vector<std::string> made;
  for (const auto& [file, target] : staged_) {
    if (!MakeFolderOf(target, &made)) break;
    error = GiveName(file, target);
    if (error) {
      error_ = target + ": create: " + error.message();
      break;
    }
    files_.push_back(target);
  }
  if (error_.empty()) return;
  for (const std::string& file : files_) fs::remove(file, error);
  for (auto folder = made.rbegin(); folder != made.rend(); ++folder) fs::remove(*folder, error);
  files_.clear();
}

}  // namespace stepagent::cli
