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
#include "carafe/base/file_access.h"

namespace carafe {
namespace {

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
  const Descriptor file(open(path.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) throw FileError(path, "opening for writing", errno);
  while (!content.empty()) {
    const ssize_t written = write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw FileError(path, "writing", errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

// An empty file of this process alone: in a folder that others may write to, somebody may have put
// a link there to a file that we must not overwrite. A link, or a file left by a process that was
// killed and had this id, is removed.
void MakeTemporary(const std::string& path) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int file = open(path.c_str(), kFlags, 0644);
  if (file < 0 && errno == EEXIST && unlink(path.c_str()) == 0) {
    file = open(path.c_str(), kFlags, 0644);
  }
  if (file < 0) throw FileError(path, "opening for writing", errno);
  close(file);
}

void Sync(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0 || fsync(file.get()) != 0) throw FileError(path, "writing to disk", errno);
}

}  // namespace

DataError FileError(const std::string& path, const char* doing, int error) {
  const char* fix = error == ENOSPC   ? "free some space on that disk, or write elsewhere"
                    : error == EACCES ? "choose a folder that you may write to"
                                      : "check the path";
  return {path, -1, fmt::format("{} failed: {}", doing, std::strerror(error)), fix};
}

std::ifstream OpenFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw DataError(path, -1, "this is a folder, not a file", "give the path of a file");
  }
  // A pipe may be meant, but /dev/zero has no end.
  if (std::filesystem::is_character_file(path, ignored) ||
      std::filesystem::is_block_file(path, ignored)) {
    throw DataError(path, -1, "this is a device, not a file", "give the path of a file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw DataError(path, -1, fmt::format("the file cannot be read: {}", std::strerror(errno)),
                    fmt::format("check the path; it was looked for from {}",
                                std::filesystem::current_path().string()));
  }
  return in;
}

std::string ReadFile(const std::string& path) {
  const std::ifstream in = OpenFile(path);
  std::ostringstream content;
  content << in.rdbuf();
  return std::move(content).str();
}

void WriteAtomically(const std::string& path,
                     const std::function<void(const std::string& temporary)>& write) {
  const std::string temporary = fmt::format("{}.tmp.{}", path, getpid());
  MakeTemporary(temporary);
  try {
    write(temporary);
    Sync(temporary);
    if (rename(temporary.c_str(), path.c_str()) != 0) throw FileError(path, "renaming", errno);
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
