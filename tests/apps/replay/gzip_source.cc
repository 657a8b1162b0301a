#include "gzip_source.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace stepagent::replay {

GzipBuffer::GzipBuffer(const std::string& path) : file_(gzopen(path.c_str(), "rb")) {
  if (file_ == nullptr) throw std::runtime_error(path + ": " + std::strerror(errno));
}

GzipBuffer::~GzipBuffer() { gzclose(file_); }

GzipBuffer::int_type GzipBuffer::underflow() {
  const int read = gzread(file_, block_.data(), static_cast<unsigned>(block_.size()));
  if (read <= 0) return traits_type::eof();
  setg(block_.data(), block_.data(), block_.data() + read);
  return traits_type::to_int_type(block_[0]);
}

}  // namespace stepagent::replay
