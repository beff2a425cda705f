// Connects the ranks of different hosts, each with each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

struct SocketOptions {
  bool wanted = true;                  // by this rank; false: no rank gets sockets
  double wait = 300;                   // seconds for the other ranks to come
  std::string identity;                // of the host; ranks with equal ones get no socket
  std::vector<std::string> addresses;  // of this rank; empty: OwnAddresses
};

// From CARAFE_TCP: off, on, or the name of the network interface to use. Default: on, unless this
// host has a network that MPI uses better than through TCP (such as InfiniBand). Throws ConfigError
// if there is no such interface.
SocketOptions SocketOptionsOfEnvironment();

// Open sockets that close themselves.
class Sockets {
 public:
  explicit Sockets(int size) : descriptors_(static_cast<size_t>(size), -1) {}
  ~Sockets();
  Sockets(Sockets&& other) noexcept { descriptors_.swap(other.descriptors_); }
  Sockets& operator=(Sockets&&) = delete;
  int& operator[](int rank) { return descriptors_[static_cast<size_t>(rank)]; }
  int operator[](int rank) const { return descriptors_[static_cast<size_t>(rank)]; }

 private:
  std::vector<int> descriptors_;  // by rank; -1: none
};

// A collective call. Returns non-blocking sockets to all ranks of other hosts. If a rank does not
// want any, or cannot be reached, there are none; in the second case the string says why.
std::pair<Sockets, std::string> ConnectHosts(Transport& inner, const SocketOptions& options);

}  // namespace carafe
