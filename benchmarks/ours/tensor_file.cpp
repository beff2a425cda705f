#include "benchmarks/ours/tensor_file.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "carafe/base/error.h"

namespace carafe {

void WriteTensors(const std::string& path, const std::vector<Tensor>& tensors) {
  nlohmann::json head = nlohmann::json::array();
  for (const Tensor& tensor : tensors) {
    std::vector<int64_t> dims;
    for (int i = 0; i < tensor.shape.rank(); ++i) dims.push_back(tensor.shape[i]);
    head.push_back({{"name", tensor.name}, {"shape", dims}});
  }
  std::ofstream file(path, std::ios::binary);
  file << head.dump() << '\n';
  for (const Tensor& tensor : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.values.data()),
               static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
  }
  file.close();
  if (!file) throw DataError(path, -1, "cannot be written", "is the disk full?");
}

std::vector<Tensor> ReadTensors(const std::string& path) {
  const auto fail = [&path](const std::string& what) -> DataError {
    return {path, -1, what, "let carafe_bench write it again"};
  };
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line)) throw fail("cannot be read");
  std::vector<Tensor> tensors;
  try {
    for (const nlohmann::json& entry : nlohmann::json::parse(line)) {
      const Shape shape(entry.at("shape").get<std::vector<int64_t>>());
      tensors.push_back({entry.at("name"), shape, {}});
    }
  } catch (const nlohmann::json::exception& error) {
    throw fail(fmt::format("has no list of tensors: {}", error.what()));
  }
  const uint64_t size = std::filesystem::file_size(path);
  for (Tensor& tensor : tensors) {
    const auto bytes = static_cast<uint64_t>(tensor.shape.Count()) * sizeof(float);
    if (bytes > size - static_cast<uint64_t>(file.tellg())) throw fail("is cut off");
    tensor.values.resize(static_cast<size_t>(tensor.shape.Count()));
    file.read(reinterpret_cast<char*>(tensor.values.data()), static_cast<std::streamsize>(bytes));
  }
  return tensors;
}

Distance DistanceOf(const Tensor& a, const Tensor& b) {
  if (a.name != b.name || !(a.shape == b.shape)) {
    throw InternalError(fmt::format("{} {} is compared with {} {}", a.name, a.shape.ToString(),
                                    b.name, b.shape.ToString()));
  }
  Distance sum;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double x = a.values[i], y = b.values[i];
    sum.difference += (x - y) * (x - y);
    sum.scale += y * y;
  }
  return {std::sqrt(sum.difference), std::sqrt(sum.scale)};
}

}  // namespace carafe
