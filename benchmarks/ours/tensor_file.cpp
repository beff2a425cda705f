#include "benchmarks/ours/tensor_file.h"

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

}  // namespace carafe
