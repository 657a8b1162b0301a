#include "collector/cli/convert_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "collector/launch/progress_bar.h"
#include "collector/spool/names.h"
#include "collector/writers/writer.h"

namespace stepagent::cli {
namespace {

namespace fs = std::filesystem;

// trace.launches.folded beside x.folded is x.launches.folded.
std::string Beside(const std::string& out, const std::string& first, const std::string& name) {
  if (name == first) return out;
  const size_t stem = first.find('.');
  const std::string extension = first.substr(std::min(stem, first.size()));
  std::string base = out;
  if (base.ends_with(extension)) base.resize(base.size() - extension.size());
  return base + name.substr(std::min(name.find('.'), name.size()));
}

}  // namespace

ConvertOutput::ConvertOutput(std::string format, std::string out)
    : format_(std::move(format)), out_(std::move(out)) {}

void ConvertOutput::Take(model::Cycle cycle) {
  if (!error_.empty()) return;
  if (!first_ && !has_several_) {
    first_ = std::move(cycle);
    return;
  }
  if (!has_several_) {
    has_several_ = true;
    WriteInto(*first_, out_ + "/" + spool::CycleName(first_->index));
    first_.reset();
  }
  WriteInto(cycle, out_ + "/" + spool::CycleName(cycle.index));
}

void ConvertOutput::Finish() {
  if (!first_ || !error_.empty()) return;
  std::error_code error;
  if (fs::is_directory(out_, error)) {
    WriteInto(*first_, out_);
  } else {
    WriteAs(*first_, out_);
  }
  first_.reset();
}

std::vector<std::string> ConvertOutput::WriteFiles(const model::Cycle& cycle,
                                                   const std::string& folder) {
  launch::ProgressBar bar(STDERR_FILENO, "cycle " + std::to_string(cycle.index),
                          launch::ProgressBar::Clock::now());
  const writers::WriteTarget target{
      .traces_dir = folder,
      .cycle_dir = folder,
      .trace_stem = spool::TraceStem(cycle.session, false, cycle.index),
      .progress = [&bar](uint64_t done, uint64_t total) {
        bar.Show(done, total, launch::ProgressBar::Clock::now());
      }};
  const writers::WriteResult result = writers::MakeWriter(format_)->Write(cycle, target);
  if (!result.ok) error_ = result.error;
  std::vector<std::string> files;
  for (const writers::WrittenFile& file : result.files) files.push_back(file.path);
  return files;
}

void ConvertOutput::WriteInto(const model::Cycle& cycle, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    error_ = folder + ": create: " + error.message();
    return;
  }
  for (std::string& file : WriteFiles(cycle, folder)) files_.push_back(std::move(file));
}

// The writers choose their own names: they write into a folder of our own beside OUT, and the files
// take their names by links, which never replace anything.
void ConvertOutput::WriteAs(const model::Cycle& cycle, const std::string& out) {
  const fs::path given(out);
  const fs::path parent = given.has_parent_path() ? given.parent_path() : fs::path(".");
  std::string pattern = (parent / ".stepagent-convert-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    error_ = out + ": create: " + std::strerror(errno);
    return;
  }
  const std::vector<std::string> written = WriteFiles(cycle, pattern);
  std::string first;
  for (const std::string& path : written) {
    const std::string name = fs::path(path).filename().string();
    if (first.empty()) first = name;
    const std::string target = Beside(out, first, name);
    std::error_code error;
    fs::create_hard_link(path, target, error);
    // A file system without links: what did not exist a moment ago is renamed to.
    if (error && error != std::errc::file_exists && !fs::exists(target)) {
      error.clear();
      fs::rename(path, target, error);
    }
    if (error && error_.empty()) error_ = target + ": create: " + error.message();
    if (!error) files_.push_back(target);
  }
  std::error_code ignored;
  fs::remove_all(pattern, ignored);
}

}  // namespace stepagent::cli
