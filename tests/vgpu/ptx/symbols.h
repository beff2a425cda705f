// Names of a PTX text, in scopes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/vgpu/ptx/module.h"

namespace carafe::vgpu::ptx {

struct Symbol {
  enum Kind {
    kRegister,       // value: its slot
    kParam,          // an offset in the frame's memory of parameters
    kLocal,          // an offset in the frame's local memory
    kValue,          // an offset in shared memory
    kDynamicShared,  // behind all static shared memory
    kModule          // a generic address
  };
  Kind kind = kValue;
  int64_t value = 0;
};

class Symbols {
 public:
  void Push() { scopes_.emplace_back(); }
  void Pop() { scopes_.pop_back(); }
  void Add(const std::string& name, const Symbol& symbol) { scopes_.back()[name] = symbol; }
  const Symbol* Find(const std::string& name) const {  // null: none
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = scope->find(name);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

 private:
  std::vector<std::map<std::string, Symbol>> scopes_{1};
};

// The slot of %tid.x and the like.
inline std::optional<int> SpecialRegister(std::string_view name) {
  constexpr std::pair<std::string_view, int> kVectors[] = {
      {"%tid", kTid}, {"%ntid", kNtid}, {"%ctaid", kCtaid}, {"%nctaid", kNctaid}};
  for (const auto& [prefix, slot] : kVectors) {
    if (name.size() != prefix.size() + 2 || !name.starts_with(prefix) || name[prefix.size()] != '.')
      continue;
    const int axis = name.back() - 'x';
    if (axis >= 0 && axis <= 2) return slot + axis;
  }
  if (name == "%laneid") return kLaneId;
  if (name == "%warpid") return kWarpId;
  return std::nullopt;
}

}  // namespace carafe::vgpu::ptx
