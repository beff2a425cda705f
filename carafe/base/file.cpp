#include "carafe/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "carafe/base/error.h"

namespace carafe {
namespace {

[[noreturn]] void Fail(const std::string& path, const char* doing, int error) {
  const char* fix = error == ENOSPC   ? "free some space on that disk, or write elsewhere"
                    : error == EACCES ? "choose a folder that you may write to"
                                      : "check the path";
  throw DataError(path, -1, fmt::format("{} failed: {}", doing, std::strerror(error)), fix);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
};

void WriteWhole(const std::string& path, std::string_view content) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) Fail(path, "opening for writing", errno);
  while (!content.empty()) {
    const ssize_t written = write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) Fail(path, "writing", errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

void Sync(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0 || fsync(file.get()) != 0) Fail(path, "writing to disk", errno);
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw DataError(path, -1, "this is a folder, not a file", "give the path of a file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw DataError(path, -1, fmt::format("the file cannot be read: {}", std::strerror(errno)),
                    fmt::format("check the path; it was looked for from {}",
                                std::filesystem::current_path().string()));
  }
  std::ostringstream content;
  content << in.rdbuf();
  return std::move(content).str();
}

void WriteAtomically(const std::string& path,
                     const std::function<void(const std::string& temporary)>& write) {
  const std::string temporary = fmt::format("{}.tmp.{}", path, getpid());
  try {
    write(temporary);
    Sync(temporary);
    if (rename(temporary.c_str(), path.c_str()) != 0) Fail(path, "renaming", errno);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor directory(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC));
  if (directory.get() >= 0) fsync(directory.get());
}

void WriteFileAtomically(const std::string& path, std::string_view content) {
  WriteAtomically(path, [&](const std::string& temporary) { WriteWhole(temporary, content); });
}

}  // namespace carafe
