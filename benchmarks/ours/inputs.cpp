#include "benchmarks/ours/inputs.h"

#include <string>
#include <vector>

#include "carafe/base/random.h"

namespace carafe {
namespace {

constexpr uint64_t kSeed = 1;

}  // namespace

template <typename T>
void FillInputs(Stream& stream, Net<T>& net, int classes) {
  for (const int id : net.input_ids()) {
    Blob<T>& blob = *net.blobs()[static_cast<size_t>(id)];
    const std::string& name = net.blob_names()[static_cast<size_t>(id)];
    RandomSequence random(MixSeed(kSeed, HashName(name)));
    std::vector<T> values(static_cast<size_t>(blob.count()));
    const auto first_step = static_cast<size_t>(blob.count() / blob.shape()[0]);
    for (size_t i = 0; i < values.size(); ++i) {
      if (name == "label") {
        values[i] = static_cast<T>(random.NextBelow(static_cast<uint64_t>(classes)));
      } else if (name == "cont") {
        values[i] = i < first_step ? 0 : 1;
      } else {
        values[i] = static_cast<float>(random.NextGaussian());
      }
    }
    blob.SetData(stream, values);
  }
}

template void FillInputs(Stream&, Net<float>&, int);
template void FillInputs(Stream&, Net<double>&, int);

}  // namespace carafe
