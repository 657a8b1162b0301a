#include "collector/launch/process_tree.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>

#include "proto/rank_info.h"

namespace stepagent::launch {
namespace {

constexpr size_t kTitleBytes = 200;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool ReadStat(pid_t pid, TreeProcess* process) {
  const std::string stat = ReadAll("/proc/" + std::to_string(pid) + "/stat");
  const size_t end = stat.rfind(')'), begin = stat.find('(');
  if (end == std::string::npos || begin == std::string::npos) return false;
  char state = 0;
  std::istringstream rest(stat.substr(end + 1));
  if (!(rest >> state >> process->parent)) return false;
  process->pid = pid;
  process->is_zombie = state == 'Z';
  process->title = stat.substr(begin + 1, end - begin - 1);
  return true;
}

void ReadTitle(TreeProcess* process) {
  std::string line = ReadAll("/proc/" + std::to_string(process->pid) + "/cmdline");
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 32; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  if (!line.empty()) process->title = line.substr(0, kTitleBytes);
}

void ReadMaps(TreeProcess* process) {
  std::ifstream maps("/proc/" + std::to_string(process->pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find('/');
    if (at == std::string::npos) continue;
    const std::string path = line.substr(at);
    const std::string name = path.substr(path.rfind('/') + 1);
    if (name.starts_with("libcuda.so")) process->driver = path;
    if (name.starts_with("libcupti.so")) process->cupti = path;
    if (name.starts_with("libstepagent.so")) process->stepagent = path;
  }
}

void ReadToldRank(TreeProcess* process) {
  std::string block = ReadAll("/proc/" + std::to_string(process->pid) + "/environ");
  std::vector<char*> entries;
  for (size_t at = 0; at < block.size(); at += std::string_view(block.data() + at).size() + 1)
    entries.push_back(block.data() + at);
  entries.push_back(nullptr);
  const proto::RankInfo told = proto::ReadRank(entries.data());
  process->told_rank = told.rank;
  process->told_world = told.world_size;
}

std::vector<TreeProcess> AllProcesses() {
  std::vector<TreeProcess> all;
  DIR* dir = opendir("/proc");
  if (dir == nullptr) return all;
  while (const dirent* entry = readdir(dir)) {
    pid_t pid = 0;
    const std::string name = entry->d_name;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    TreeProcess process;
    if (error == std::errc() && end == name.data() + name.size() && ReadStat(pid, &process))
      all.push_back(process);
  }
  closedir(dir);
  return all;
}

}  // namespace

TreeProcess LookAtProcess(pid_t pid) {
  TreeProcess process;
  if (!ReadStat(pid, &process)) return {};
  ReadTitle(&process);
  ReadMaps(&process);
  ReadToldRank(&process);
  return process;
}

std::vector<TreeProcess> ProcessesBelow(pid_t root) {
  const std::vector<TreeProcess> all = AllProcesses();
  std::vector<TreeProcess> below;
  std::vector<pid_t> parents{root};
  for (size_t i = 0; i < parents.size(); ++i) {
    for (const TreeProcess& process : all) {
      if (process.parent != parents[i] || process.pid == process.parent) continue;
      parents.push_back(process.pid);
      below.push_back(process);
    }
  }
  for (TreeProcess& process : below) {
    ReadTitle(&process);
    ReadMaps(&process);
    ReadToldRank(&process);
  }
  return below;
}

}  // namespace stepagent::launch
