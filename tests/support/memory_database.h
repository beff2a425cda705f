// A database of records that a test made up.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/data/database.h"

namespace carafe {

class MemoryDatabase final : public Database {
 public:
  using Records = std::vector<std::pair<std::string, std::string>>;  // key, value
  explicit MemoryDatabase(Records records) : records_(std::move(records)) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  Record Read(int64_t index) const override {
    const auto& [key, value] = At(records_, index);
    return {key, value};
  }

 private:
  const std::string name_ = "memory";
  const Records records_;
};

}  // namespace carafe
