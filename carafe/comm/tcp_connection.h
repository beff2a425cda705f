// Single TCP connections: listening, connecting, and the options of a socket.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

namespace carafe {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  int get() const { return value_; }
  int Release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

std::string SystemError(int error);  // of errno

// Waits for `events` (poll) until `end` (see Now). False: the time is up.
bool WaitForEvents(int descriptor, short events, double end);

// Accepts IPv4 and, if the system has it, IPv6. -1: it cannot listen, see errno.
Descriptor Listen(int backlog, int* port);
// On these addresses of this host only, all with one port. Those that cannot be bound are left out.
std::vector<Descriptor> ListenOn(const std::vector<std::string>& addresses, int backlog, int* port);
// -1: no connection, and `problem` says why.
Descriptor Connect(const std::string& address, int port, std::string* problem);

// Whether all bytes came until `end`.
bool ReadAll(int descriptor, void* data, size_t bytes, double end);
// For a few bytes of a new connection, which always fit into its buffer.
bool WriteAll(int descriptor, const void* data, size_t bytes);

// Sets the options for sums of gradients. `connections`: of this rank.
void TuneSocket(int socket, int connections);
size_t SendBufferBytes(int socket);  // bytes that it takes before it blocks

}  // namespace carafe
