// The arrays of a reference file: .npz, an uncompressed zip of .npy files in little-endian C order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace carafe::golden {

// Numbers of any type as doubles (exact for all types that occur), or texts.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::vector<std::string> texts;
  bool is_text = false;

  static Array Of(std::vector<int64_t> shape, std::vector<double> values) {
    return {std::move(shape), std::move(values), {}, false};
  }
  static Array Of(std::vector<std::string> texts) {
    return {{static_cast<int64_t>(texts.size())}, {}, std::move(texts), true};
  }
  std::vector<float> Floats() const { return {values.begin(), values.end()}; }
};

// Name (without ".npy") and content, in the order of the file.
class Arrays {
 public:
  // Throws std::runtime_error for anything that is not such a file.
  static Arrays Read(const std::string& path);

  const Array* Find(const std::string& name) const;  // null if there is none
  const Array& At(const std::string& name) const;    // throws if there is none
  const std::vector<std::pair<std::string, Array>>& all() const { return arrays_; }

 private:
  std::vector<std::pair<std::string, Array>> arrays_;
};

}  // namespace carafe::golden
