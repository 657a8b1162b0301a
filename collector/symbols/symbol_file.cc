#include "collector/symbols/symbol_file.h"

#include "collector/symbols/debug_info.h"
#include "collector/symbols/elf_symbols.h"

namespace stepagent::symbols {
namespace {

// Where distributions' packages put debug information that was taken out of a file.
std::string SeparatePath(const std::string& build_id) {
  if (build_id.size() < 6) return "";
  return "/usr/lib/debug/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) + ".debug";
}

}  // namespace

SymbolFile::SymbolFile(const std::string& path, const std::string& build_id) {
  symbols_ = std::make_unique<ElfSymbols>();
  // A path that --redact hashed: what its build id would find must not be told either.
  if (!path.starts_with('/')) return;
  file_ = ElfFile::Open(path);
  if (file_ != nullptr) {
    state_ = build_id.empty() || file_->BuildId() == build_id ? State::kGood : State::kMismatched;
    if (state_ == State::kMismatched) file_.reset();
  }
  if (file_ != nullptr) debug_ = DebugInfo::Read(file_->elf());
  if (debug_ == nullptr) {
    separate_ = ElfFile::Open(SeparatePath(build_id));
    if (separate_ != nullptr && separate_->BuildId() != build_id) separate_.reset();
    if (separate_ != nullptr) debug_ = DebugInfo::Read(separate_->elf());
  }
  // The separate file's table is the fuller one.
  if (separate_ != nullptr) symbols_->Add(separate_->elf());
  if (file_ != nullptr && symbols_->empty()) symbols_->Add(file_->elf());
  symbols_->Sort();
}

SymbolFile::~SymbolFile() {
  debug_.reset();  // before the files it reads
}

std::vector<Place> SymbolFile::Find(uint64_t address, bool with_debug_info) {
  std::vector<Place> places;
  if (debug_ != nullptr && with_debug_info) places = debug_->Find(address);
  const std::string_view symbol = symbols_->Find(address);
  // A function in a file of another language or made by hand has a symbol only; one that the
  // compiler cut in two (`f.cold`) is called by what it belongs to.
  if (places.empty() && !symbol.empty()) places.push_back({std::string(symbol), "", 0});
  std::erase_if(places, [](const Place& place) { return place.function.empty(); });
  return places;
}

}  // namespace stepagent::symbols
