// A table of things by name that static objects fill before main(): layers, update rules,
// exchanges, commands.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "carafe/base/error.h"

namespace carafe {

// Filled by static initialisers, read-only afterwards: no lock is needed.
template <typename Entry>
class Registry {
 public:
  static Registry& Instance() {
    static Registry registry;
    return registry;
  }
  void Add(const std::string& name, Entry entry) {
    const bool is_new = entries_.emplace(name, std::move(entry)).second;
    Ensure(is_new, "a name was registered twice");
  }
  const Entry* Find(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second;
  }
  std::vector<std::string> Names() const {  // sorted
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace carafe
