// Connects the ranks of different hosts, each with each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

struct SocketOptions {
  bool wanted = true;                  // by this rank; false: no sockets for anybody
  double wait = 300;                   // seconds for the other ranks to come
  std::string identity;                // of the host; ranks of equal ones get no socket
  std::vector<std::string> addresses;  // of this rank; default: see OwnAddresses
};

// By CARAFE_TCP: off, on, or the name of the network interface that is to be taken; without it on,
// unless this host has a network that MPI can use better than through TCP (InfiniBand and the
// like). Throws ConfigError where the interface is not there.
SocketOptions SocketOptionsOfEnvironment();

// Numerical addresses of the interfaces that are up, the fastest first, without loopback.
// `interface`: of this one only.
std::vector<std::string> OwnAddresses(const std::string& interface = "");

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

size_t SendRoom(int socket);  // bytes that it takes before it blocks

// A collective call. Sockets to all ranks of other hosts, which do not block; to none, with the
// problem if it is one, where somebody could not be reached or did not want any.
std::pair<Sockets, std::string> ConnectHosts(Transport& inner, const SocketOptions& options);

}  // namespace carafe
