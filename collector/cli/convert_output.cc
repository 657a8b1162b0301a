#include "collector/cli/convert_output.h"

#include <sys/stat.h>
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

// Where the parts of a cut trace lie, seen from the folder of the first.
constexpr const char* kWork = "t";

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

}  // namespace

ConvertOutput::ConvertOutput(std::string format, std::string out)
    : format_(std::move(format)), out_(std::move(out)) {}

void ConvertOutput::Take(SourceCycle source) {
  if (!error_.empty()) return;
  const bool is_of_run = !source.session.empty();
  if (!first_ && !has_several_ && !is_of_run) {
    first_ = std::move(source);
    return;
  }
  has_several_ = true;
  if (first_) WriteNumbered(*first_);
  first_.reset();
  if (error_.empty()) WriteNumbered(source);
}

void ConvertOutput::Finish() {
  if (!first_ || !error_.empty()) return;
  std::error_code error;
  if (fs::is_directory(out_, error)) {
    WriteInto(*first_, out_, out_);
  } else {
    WriteAs(*first_, out_);
  }
  first_.reset();
}

void ConvertOutput::WriteNumbered(const SourceCycle& source) {
  const std::string name = spool::CycleName(source.cycle.index);
  if (source.session.empty()) return WriteInto(source, out_ + "/" + name, out_ + "/" + name);
  WriteInto(source, out_ + "/traces/" + name, out_ + "/sessions/" + source.session + "/" + name);
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

void ConvertOutput::WriteInto(const SourceCycle& source, const std::string& traces,
                              const std::string& folder) {
  const std::string& wanted = format_ == "chrome" ? traces : folder;
  std::error_code error;
  fs::create_directories(wanted, error);
  if (error) {
    error_ = wanted + ": create: " + error.message();
    return;
  }
  for (std::string& file : WriteFiles(source, traces, folder)) files_.push_back(std::move(file));
}

// The writers choose their own names: they write into a folder of our own beside OUT, and the files
// take their names by links, which never replace anything.
void ConvertOutput::WriteAs(const SourceCycle& source, const std::string& out) {
  const fs::path given(out);
  const fs::path parent = given.has_parent_path() ? given.parent_path() : fs::path(".");
  std::string pattern = (parent / ".stepagent-convert-XXXXXX").string();
  const bool is_made = mkdtemp(pattern.data()) != nullptr;
  const std::string work = pattern + "/" + kWork;
  if (!is_made || mkdir(work.c_str(), 0700) != 0) {
    error_ = out + ": create: " + std::strerror(errno);
    return;
  }
  const std::vector<std::string> written = WriteFiles(source, work, work);
  for (const std::string& path : written) {
    const std::string target = Beside(out, written.front(), path);
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
