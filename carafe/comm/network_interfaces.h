// The network interfaces of this host.
#pragma once

#include <string>
#include <vector>

namespace carafe {

// Numerical addresses of the interfaces that are up, the fastest first, without loopback.
// `interface`: of this one only.
std::vector<std::string> OwnAddresses(const std::string& interface = "");

// The names of the interfaces that are up, without loopback, sorted.
std::vector<std::string> InterfaceNames();

// Whether one of this host's interfaces is in the same network (IPv4) as the address.
bool InOwnNetwork(const std::string& address);

}  // namespace carafe
