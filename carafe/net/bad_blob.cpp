#include "carafe/net/bad_blob.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/kernels/math.h"

namespace carafe {
namespace {

// Running statistics: Forward changes them although a repeated pass must not.
template <typename T>
class KeptStatistics {
 public:
  KeptStatistics(Net<T>& net, Stream& stream) : net_(net), stream_(stream) {
    for (const Param<T>& param : net_.params()) {
      if (!param.learned) values_.push_back(param.blob->DataToHost(stream_));
    }
  }
  KeptStatistics(const KeptStatistics&) = delete;
  KeptStatistics& operator=(const KeptStatistics&) = delete;
  void Restore() {
    auto next = values_.begin();
    for (const Param<T>& param : net_.params()) {
      if (!param.learned) param.blob->SetData(stream_, *next++);
    }
  }

 private:
  Net<T>& net_;
  Stream& stream_;
  std::vector<std::vector<T>> values_;
};

template <typename T>
bool IsWrittenInPlace(const Net<T>& net, int blob) {
  int writers = 0;
  for (const std::vector<int>& tops : net.top_ids()) {
    writers += static_cast<int>(std::ranges::count(tops, blob));
  }
  return writers > 1;
}

// What is known of a layer that cannot run again.
template <typename T>
bool HasItsTops(const Net<T>& net, int layer, int passes) {
  const std::vector<int>& tops = At(net.top_ids(), layer);
  if (tops.empty()) return true;
  // Tops of layers without bottoms keep their memory (net/memory_plan.h).
  return passes == 1 && At(net.bottom_ids(), layer).empty() &&
         std::ranges::none_of(tops, [&](int blob) { return IsWrittenInPlace(net, blob); });
}

template <typename T>
std::string Title(const Net<T>& net, int layer) {
  const LayerSpec& spec = At(net.layers(), layer)->spec();
  return fmt::format("layer \"{}\" ({})", spec.name(), spec.param().type());
}

}  // namespace

template <typename T>
std::string FindBadBlob(Net<T>& net, RunContext& run, std::span<const Pass> passes) {
  std::vector<bool> skip;
  int end = 0;  // layers before this one can be run again
  for (; end < Count(net.layers()); ++end) {
    Layer<T>& layer = *At(net.layers(), end);
    skip.push_back(!layer.RewindForward(run.stream, Count(passes)));
    if (skip.back() && !HasItsTops(net, end, Count(passes))) break;
  }
  std::string found;
  KeptStatistics<T> statistics(net, run.stream);
  for (const Pass& pass : passes) {
    run.pass = pass;
    net.ForwardAgain(run, end, skip, [&](int layer) {
      for (int t = 0; t < Count(At(net.tops(), layer)) && found.empty(); ++t) {
        const Blob<T>& top = *At(At(net.tops(), layer), t);
        if (AllFinite(run.stream, top.count(), top.data(run.stream))) continue;
        found =
            fmt::format("first in blob \"{}\", a top of {}",
                        At(net.blob_names(), At(At(net.top_ids(), layer), t)), Title(net, layer));
      }
    });
    statistics.Restore();
  }
  if (!found.empty()) return found;
  if (end == Count(net.layers())) return "in no blob when the forward pass is run again";
  return fmt::format("in no blob before {}, which cannot run again to find it", Title(net, end));
}

template std::string FindBadBlob(Net<float>&, RunContext&, std::span<const Pass>);
template std::string FindBadBlob(Net<double>&, RunContext&, std::span<const Pass>);

}  // namespace carafe
