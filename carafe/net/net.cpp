#include "carafe/net/net.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "carafe/net/row_axes.h"

namespace carafe {

template <typename T>
Net<T>::Net(const NetSpec& spec, const NetState& state, const AlgorithmChoices& algorithms) {
  BuiltNet<T> built = BuildGraph<T>(spec, state);
  graph_ = std::move(built.graph);
  params_ = std::move(built.params);
  memory_ = std::make_unique<BlobMemory<T>>(*graph_);
  runner_ = std::make_unique<Runner<T>>(*graph_, *params_, *memory_);
  SetRowAxes(*graph_);
  SetPlan(algorithms);
}

template <typename T>
void Net<T>::SetPlan(const AlgorithmChoices& choices, bool fuse) {
  if (!choices.IsKnown()) {
    throw ConfigError(fmt::format("there is no algorithm \"{}\"", choices.asked),
                      "use one of " + AlgorithmChoices::Names());
  }
  const auto shared = std::make_shared<const AlgorithmChoices>(choices);
  for (const auto& layer : layers()) {
    layer->SetChoices(shared);
    layer->SetScratch(memory_->scratch());
  }
  fuse_ = fuse;
  Prepare();
}

template <typename T>
void Net<T>::ShareMemory(MemorySharing sharing, std::shared_ptr<MemoryPool> pool,
                         const std::vector<std::string>& keep) {
  std::set<int> kept;
  for (const std::string& name : keep) {
    const auto found = graph_->blob_index.find(name);
    if (found != graph_->blob_index.end()) kept.insert(found->second);
  }
  memory_->Share(sharing, std::move(pool), std::move(kept));
  Prepare();
}

template <typename T>
bool Net<T>::RequestFactors(int param, bool wanted) {
  const bool granted = params_->RequestFactors(param, wanted);
  if (granted) runner_->Prepare(fusions_);
  return granted;
}

template <typename T>
void Net<T>::Prepare() {
  fusions_ = fuse_ ? FindFusions(*graph_, *params_, memory_->sharing()) : std::vector<Fusion>();
  memory_->Apply(*params_);
  runner_->Prepare(fusions_);
}

template <typename T>
Blob<T>* Net<T>::FindBlob(const std::string& name) const {
  const auto found = graph_->blob_index.find(name);
  return found == graph_->blob_index.end() ? nullptr : At(blobs(), found->second).get();
}

template <typename T>
Layer<T>* Net<T>::FindLayerNamed(const std::string& name) const {
  for (const auto& layer : layers()) {
    if (layer->name() == name) return layer.get();
  }
  return nullptr;
}

template class Net<float>;
template class Net<double>;

}  // namespace carafe
