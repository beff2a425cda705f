#include "carafe/comm/network_interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <utility>

namespace carafe {
namespace {

// Megabits a second; 0 if the system does not know.
int64_t SpeedOf(const std::string& interface) {
  int64_t speed = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> speed;
  return std::max<int64_t>(speed, 0);
}

std::string Text(const sockaddr& address) {
  char text[64] = "";
  const socklen_t length =
      address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  return getnameinfo(&address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text
                                                                                           : "";
}

bool Usable(const ifaddrs& entry) {
  if (!entry.ifa_addr || !(entry.ifa_flags & IFF_UP) || (entry.ifa_flags & IFF_LOOPBACK))
    return false;
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr);
}

template <typename Each>
void ForInterfaces(const Each& each) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  for (const ifaddrs* entry = all; entry; entry = entry->ifa_next)
    if (Usable(*entry)) each(*entry);
  freeifaddrs(all);
}

}  // namespace

std::vector<std::string> OwnAddresses(const std::string& interface) {
  std::vector<std::pair<int64_t, std::string>> found;
  ForInterfaces([&](const ifaddrs& entry) {
    if (interface.empty() || interface == entry.ifa_name)
      found.emplace_back(SpeedOf(entry.ifa_name), Text(*entry.ifa_addr));
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> addresses;
  for (auto& [speed, address] : found) addresses.push_back(std::move(address));
  return addresses;
}

std::vector<std::string> InterfaceNames() {
  std::vector<std::string> names;
  ForInterfaces([&](const ifaddrs& entry) { names.emplace_back(entry.ifa_name); });
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool InOwnNetwork(const std::string& address) {
  in_addr other = {};
  if (inet_pton(AF_INET, address.c_str(), &other) != 1) return false;
  bool near = false;
  ForInterfaces([&](const ifaddrs& entry) {
    if (entry.ifa_addr->sa_family != AF_INET || !entry.ifa_netmask) return;
    const auto word = [](const sockaddr* a) {
      return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr;
    };
    near |= ((word(entry.ifa_addr) ^ other.s_addr) & word(entry.ifa_netmask)) == 0;
  });
  return near;
}

}  // namespace carafe
