#pragma once
// A folder of a test's own, removed with all in it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace stepagent::launch {

class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "launch.XXXXXX") {
    if (!mkdtemp(path_.data())) ADD_FAILURE() << "mkdtemp " << path_;
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = path_ + "/" + name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace stepagent::launch
