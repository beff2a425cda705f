// Memory that processes of one host share without a name in any file system: it is gone when the
// last of them ends, however that happens, and no size of /dev/shm limits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace carafe {

// Equal texts are processes that can share memory: same machine, host name, network, processes and
// user. Two hosts that are namespaces of one kernel differ. Empty if that is unknown.
std::string HostIdentity();

class ShmSegment {
 public:
  ShmSegment() = default;
  // Zeros; throws CommError when the system has none to give.
  static ShmSegment Make(size_t bytes);
  // What process `pid` of this host has open as `descriptor`; throws CommError.
  enum class Access { kRead, kWrite };
  static ShmSegment Open(int64_t pid, int descriptor, size_t bytes, Access access);
  ~ShmSegment();
  ShmSegment(ShmSegment&& other) noexcept;
  ShmSegment& operator=(ShmSegment&& other) noexcept;

  char* data() const { return data_; }
  int descriptor() const { return descriptor_; }
  void CloseDescriptor();  // everyone has opened it: the memory stays

 private:
  ShmSegment(int descriptor, size_t bytes, Access access);

  char* data_ = nullptr;
  size_t bytes_ = 0;
  int descriptor_ = -1;
};

// Knows whether a process has ended, even if its id belongs to another one since.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  explicit ProcessWatch(int64_t pid);
  ~ProcessWatch();
  ProcessWatch(ProcessWatch&& other) noexcept;
  ProcessWatch& operator=(ProcessWatch&& other) noexcept;
  bool ended() const;  // false if the system cannot tell

 private:
  int descriptor_ = -1;
};

}  // namespace carafe
