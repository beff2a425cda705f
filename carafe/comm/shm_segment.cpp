#include "carafe/comm/shm_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "carafe/base/error.h"

namespace carafe {
namespace {

[[noreturn]] void Fail(const std::string& what) {
  throw CommError(fmt::format("{}: {}", what, std::strerror(errno)), "");
}

std::string LinkOf(const char* path) {
  char text[128];
  const ssize_t length = readlink(path, text, sizeof text);
  return length < 0 ? "" : std::string(text, static_cast<size_t>(length));
}

}  // namespace

std::string HostIdentity() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const std::string net = LinkOf("/proc/self/ns/net");
  const std::string pid = LinkOf("/proc/self/ns/pid");
  if (boot.empty() || net.empty() || pid.empty()) return "";
  return fmt::format("{} {} {} {} {}", host, boot, net, pid, geteuid());
}

ShmSegment::ShmSegment(int descriptor, size_t bytes, Access access)
    : bytes_(bytes), descriptor_(descriptor) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    CloseDescriptor();
    errno = error;
    Fail(fmt::format("{} bytes of shared memory cannot be mapped", bytes));
  }
  data_ = static_cast<char*>(data);
}

ShmSegment ShmSegment::Make(size_t bytes) {
  const int descriptor = memfd_create("carafe", MFD_CLOEXEC);
  if (descriptor < 0) Fail("the system gives no shared memory");
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const int error = errno;
    close(descriptor);
    errno = error;
    Fail(fmt::format("the system gives no {} bytes of shared memory", bytes));
  }
  return ShmSegment(descriptor, bytes, Access::kWrite);
}

ShmSegment ShmSegment::Open(int64_t pid, int descriptor, size_t bytes, Access access) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const int opened = open(path.c_str(), (access == Access::kRead ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (opened < 0) Fail(path);
  struct stat status = {};
  if (fstat(opened, &status) != 0 || static_cast<size_t>(status.st_size) != bytes) {
    close(opened);
    throw CommError(fmt::format("{} is not the memory that was offered", path), "");
  }
  return ShmSegment(opened, bytes, access);
}

void ShmSegment::CloseDescriptor() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

ShmSegment::~ShmSegment() {
  CloseDescriptor();
  if (data_) munmap(data_, bytes_);
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept { *this = std::move(other); }

ShmSegment& ShmSegment::operator=(ShmSegment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

ProcessWatch::ProcessWatch(int64_t pid)
    : descriptor_(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))) {}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) close(descriptor_);
}

ProcessWatch::ProcessWatch(ProcessWatch&& other) noexcept { *this = std::move(other); }

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool ProcessWatch::ended() const {
  if (descriptor_ < 0) return false;
  pollfd watched{descriptor_, POLLIN, 0};
  return poll(&watched, 1, 0) == 1;
}

}  // namespace carafe
