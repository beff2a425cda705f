// The parameters of a net: declared by layers, shared by name, laid out in two arenas, filled.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "carafe/layers/filler.h"
#include "carafe/layers/initial_values.h"
#include "carafe/net/net.h"
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
void Net<T>::AddParams(const LayerSpec& spec, Layer<T>& layer, const Shapes&) {
  const std::vector<ParamDef>& defs = param_defs_.back();
  const LayerParameter& param = spec.param();
  spec.Check(param.param_size() <= static_cast<int>(defs.size()), "param",
             fmt::format("it has {} `param` entries, but only {} parameters", param.param_size(),
                         defs.size()),
             "remove the superfluous `param { }` entries");
  owner_of_.emplace_back();
  for (size_t i = 0; i < defs.size(); ++i) {
    layer.blobs().push_back(std::make_shared<Blob<T>>(defs[i].shape));
    const int index = static_cast<int>(i);
    ParamSpec given = index < param.param_size() ? param.param(index) : ParamSpec();
    if (!defs[i].learned) given.set_lr_mult(0);
    AddParam(spec, layer, index, given);
  }
}

template <typename T>
void Net<T>::AddParam(const LayerSpec& spec, Layer<T>& layer, int index, const ParamSpec& param) {
  const int layer_index = static_cast<int>(layers_.size());
  const auto known =
      param.name().empty() ? param_by_name_.end() : param_by_name_.find(param.name());
  if (known != param_by_name_.end()) {
    ShareParam(spec, layer, index, param, known->second);
    return;
  }
  const int owner = static_cast<int>(params_.size());
  params_.push_back({.name = fmt::format("{}/{}", spec.name(), index),
                     .blob = layer.blobs()[static_cast<size_t>(index)].get(),
                     .layer = layer_index,
                     .index = index,
                     .final_layer = layer_index,
                     .lr_mult = param.lr_mult(),
                     .decay_mult = param.decay_mult(),
                     .learned = param_defs_.back()[static_cast<size_t>(index)].learned});
  lr_mult_given_.push_back(param.has_lr_mult());
  decay_mult_given_.push_back(param.has_decay_mult());
  if (!param.name().empty()) param_by_name_[param.name()] = owner;
  owner_of_.back().push_back(owner);
}

template <typename T>
void Net<T>::ShareParam(const LayerSpec& spec, Layer<T>& layer, int index, const ParamSpec& param,
                        int owner) {
  Param<T>& owned = params_[static_cast<size_t>(owner)];
  Blob<T>& blob = *layer.blobs()[static_cast<size_t>(index)];
  const std::string path = fmt::format("param[{}]", index);
  const bool permissive = param.share_mode() == ParamSpec::PERMISSIVE;
  const bool fits =
      permissive ? blob.count() == owned.blob->count() : blob.shape() == owned.blob->shape();
  spec.Check(fits, path + ".name",
             fmt::format("the shared parameter \"{}\" has shape {} here and {} in layer \"{}\"",
                         param.name(), blob.shape().ToString(), owned.blob->shape().ToString(),
                         layers_[static_cast<size_t>(owned.layer)]->name()),
             permissive
                 ? "the counts must be equal"
                 : "the shapes must be equal; share_mode: PERMISSIVE asks for equal counts only");
  const auto settle = [&](bool given, float value, std::vector<bool>& given_before, float& kept,
                          const char* what) {
    if (!given) return;
    const bool before = given_before[static_cast<size_t>(owner)];
    spec.Check(!before || value == kept, fmt::format("{}.{}", path, what),
               fmt::format("the shared parameter \"{}\" has {} {} here and {} before", param.name(),
                           what, value, kept),
               "give it in one place only, or the same value everywhere");
    kept = value;
    given_before[static_cast<size_t>(owner)] = true;
  };
  settle(param.has_lr_mult(), param.lr_mult(), lr_mult_given_, owned.lr_mult, "lr_mult");
  settle(param.has_decay_mult(), param.decay_mult(), decay_mult_given_, owned.decay_mult,
         "decay_mult");
  // The owner lies before this layer, so the gradient stays final after the owner's Backward.
  owner_of_.back().push_back(owner);
}

// Offsets in the order in which gradients become final; frozen parameters go last.
template <typename T>
void Net<T>::LayOutParams() {
  std::vector<int> order(params_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) {
    const Param<T>&x = params_[static_cast<size_t>(a)], &y = params_[static_cast<size_t>(b)];
    if (x.frozen() != y.frozen()) return y.frozen();
    return a > b;
  });
  arena_count_ = 0;
  for (const int p : order) {
    Param<T>& param = params_[static_cast<size_t>(p)];
    param.arena_offset = arena_count_;
    const int64_t count = param.blob->count();
    const Shape padded{arena_count_ + AlignedCount(count)};
    arena_count_ = padded.Count();  // Shape checked the sum against overflow
  }
}

template <typename T>
void Net<T>::Initialise(Stream& stream, uint64_t seed) {
  value_arena_ = std::make_shared<Buffer>();
  value_arena_->Get(stream, static_cast<size_t>(arena_count_) * sizeof(T));
  for (const Param<T>& param : params_) {
    param.blob->PlaceData(value_arena_, param.arena_offset);
    const ParamDef& def =
        param_defs_[static_cast<size_t>(param.layer)][static_cast<size_t>(param.index)];
    const auto* own =
        dynamic_cast<const InitialValues*>(layers_[static_cast<size_t>(param.layer)].get());
    const std::vector<double> values =
        own != nullptr
            ? own->InitialValuesOf(param.index)
            : FillerValues(def.filler, def.shape, MixSeed(seed, HashName("fill/" + param.name)),
                           "parameter " + param.name);
    Ensure(static_cast<int64_t>(values.size()) == param.blob->count(),
           "value count differs from the blob's");
    SetValues<T>(stream, values, param.blob);
  }
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (size_t i = 0; i < owner_of_[l].size(); ++i) {
      const Param<T>& owner = params_[static_cast<size_t>(owner_of_[l][i])];
      Blob<T>& blob = *layers_[l]->blobs()[i];
      if (&blob == owner.blob) continue;
      blob.ShareData(*owner.blob);
    }
  }
  gradient_arena_.reset();
  PlaceGradients(stream, GradientLife::kStep);
}

template <typename T>
void Net<T>::ShareParamsWith(Net& other) {
  std::set<const Blob<T>*> shared;
  for (const auto& source : other.layers_) {
    Layer<T>* target = FindLayerNamed(source->name());
    if (target == nullptr) continue;
    const LayerSpec& spec = target->spec();
    spec.Check(source->blobs().size() == target->blobs().size(), "",
               fmt::format("it has {} parameters, the layer of the same name that it shares with "
                           "has {}",
                           target->blobs().size(), source->blobs().size()),
               "rename one of the two layers");
    for (size_t i = 0; i < source->blobs().size(); ++i) {
      const Blob<T>& from = *source->blobs()[i];
      Blob<T>& to = *target->blobs()[i];
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
  if (all) value_arena_.reset();  // nobody uses the values of its own
}

template <typename T>
void Net<T>::ShareLearnedParamsWith(const Net& twin) {
  Ensure(layers_.size() == twin.layers_.size(), "the nets are no twins");
  for (size_t l = 0; l < layers_.size(); ++l)
    for (size_t i = 0; i < owner_of_[l].size(); ++i)
      if (params_[static_cast<size_t>(owner_of_[l][i])].learned)
        layers_[l]->blobs()[i]->ShareData(*twin.layers_[l]->blobs()[i]);
}

template class Net<float>;
template class Net<double>;

}  // namespace carafe
