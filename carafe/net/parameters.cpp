// Values of parameters: laid out, filled and shared. Gradients are in gradient_places.cpp.
#include "carafe/net/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "carafe/layers/filler.h"
#include "carafe/net/param_alignment.h"

namespace carafe {
namespace {

// In pieces: another copy of the largest matrix would be the most memory that a program ever takes.
template <typename T>
void SetValues(Stream& stream, std::span<const double> values, Blob<T>* blob) {
  constexpr size_t kPiece = size_t{1} << 16;
  T* to = blob->overwrite_data(stream);
  for (size_t first = 0; first < values.size(); first += kPiece) {
    const auto from = values.subspan(first, std::min(kPiece, values.size() - first));
    const std::vector<T> piece(from.begin(), from.end());
    stream.CopyFromHost(to + first, std::span<const T>(piece));
  }
}

}  // namespace

template <typename T>
Parameters<T>::Parameters(const Graph<T>& graph, std::vector<Param<T>> params,
                          std::vector<std::vector<int>> owners,
                          std::vector<std::vector<ParamDef>> defs)
    : graph_(graph),
      params_(std::move(params)),
      owners_(std::move(owners)),
      defs_(std::move(defs)),
      final_after_(graph.layers.size()) {
  // Within a layer the later blob goes first, as everything runs backwards.
  for (int p = Count(params_) - 1; p >= 0; --p) {
    At(final_after_, At(params_, p).final_layer).push_back(p);
  }
  LayOut();
}

// Offsets in the order in which gradients become final; frozen parameters go last.
template <typename T>
void Parameters<T>::LayOut() {
  std::vector<int> order(params_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) {
    const Param<T>&x = At(params_, a), &y = At(params_, b);
    if (x.frozen() != y.frozen()) return y.frozen();
    return a > b;
  });
  arena_count_ = 0;
  for (const int p : order) {
    Param<T>& param = At(params_, p);
    param.arena_offset = arena_count_;
    const Shape padded{arena_count_ + AlignedCount(param.blob->count())};
    arena_count_ = padded.Count();  // Shape checked the sum against overflow
  }
}

template <typename T>
void Parameters<T>::Initialise(Stream& stream, uint64_t seed) {
  value_arena_ = std::make_shared<Buffer>();
  value_arena_->Get(stream, static_cast<size_t>(arena_count_) * sizeof(T));
  for (const Param<T>& param : params_) {
    param.blob->PlaceData(value_arena_, param.arena_offset);
    const ParamDef& def = At(At(defs_, param.layer), param.index);
    std::optional<std::vector<double>> own =
        At(graph_.layers, param.layer)->InitialValuesOf(param.index);
    const std::vector<double> values =
        own ? std::move(*own)
            : FillerValues(def.filler, def.shape, MixSeed(seed, HashName("fill/" + param.name)),
                           "parameter " + param.name);
    Ensure(static_cast<int64_t>(values.size()) == param.blob->count(),
           "value count differs from the blob's");
    SetValues<T>(stream, values, param.blob);
  }
  ForEachSharer([](Blob<T>& blob, const Blob<T>& owner) { blob.ShareData(owner); });
  gradient_arena_.reset();
  PlaceGradients(stream, GradientLife::kStep, BufferUse::kOwn);
}

template <typename T>
void Parameters<T>::ShareWith(const Graph<T>& other) {
  std::set<const Blob<T>*> shared;
  for (const auto& source : other.layers) {
    const auto found = std::ranges::find_if(
        graph_.layers, [&](const auto& layer) { return layer->name() == source->name(); });
    if (found == graph_.layers.end()) continue;
    Layer<T>& target = **found;
    const LayerSpec& spec = target.spec();
    spec.Check(source->blobs().size() == target.blobs().size(), "",
               fmt::format("it has {} parameters, the layer of the same name that it shares with "
                           "has {}",
                           target.blobs().size(), source->blobs().size()),
               "rename one of the two layers");
    for (int i = 0; i < Count(source->blobs()); ++i) {
      const Blob<T>& from = source->blob(i);
      Blob<T>& to = target.blob(i);
      spec.Check(from.shape() == to.shape(), "",
                 fmt::format("parameter {} has shape {}, in the net that it shares with {}", i,
                             to.shape().ToString(), from.shape().ToString()),
                 "rename one of the two layers");
      to.ShareData(from);
      shared.insert(&to);
    }
  }
  const bool all = std::ranges::all_of(
      params_, [&](const Param<T>& param) { return shared.contains(param.blob); });
  if (all) value_arena_.reset();  // its values are not used any more
}

template <typename T>
void Parameters<T>::ShareLearnedWith(const Graph<T>& twin) {
  Ensure(graph_.size() == twin.size(), "the nets are no twins");
  for (int l = 0; l < graph_.size(); ++l) {
    for (int i = 0; i < Count(UsedBy(l)); ++i) {
      if (!At(params_, At(UsedBy(l), i)).learned) continue;
      At(graph_.layers, l)->blob(i).ShareData(At(twin.layers, l)->blob(i));
    }
  }
}

template class Parameters<float>;
template class Parameters<double>;

}  // namespace carafe
