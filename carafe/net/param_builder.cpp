#include "carafe/net/param_builder.h"

#include <fmt/format.h>

#include <utility>

namespace carafe {

template <typename T>
void ParamBuilder<T>::Add(Layer<T>& layer, std::vector<ParamDef> defs) {
  const LayerSpec& spec = layer.spec();
  const LayerParameter& param = spec.param();
  spec.Check(param.param_size() <= Count(defs), "param",
             fmt::format("it has {} `param` entries, but only {} parameters", param.param_size(),
                         defs.size()),
             "remove the superfluous `param { }` entries");
  owners_.emplace_back();
  defs_.push_back(std::move(defs));
  for (int i = 0; i < Count(defs_.back()); ++i) {
    const ParamDef& def = At(defs_.back(), i);
    layer.blobs().push_back(std::make_shared<Blob<T>>(def.shape));
    ParamSpec given = i < param.param_size() ? param.param(i) : ParamSpec();
    if (!def.learned) given.set_lr_mult(0);
    AddOne(layer, i, given);
  }
}

template <typename T>
void ParamBuilder<T>::AddOne(Layer<T>& layer, int index, const ParamSpec& param) {
  const auto known = param.name().empty() ? by_name_.end() : by_name_.find(param.name());
  if (known != by_name_.end()) return Share(layer, index, param, known->second);
  const int layer_id = graph_.size(), owner = Count(params_);
  params_.push_back({.name = fmt::format("{}/{}", layer.name(), index),
                     .blob = &layer.blob(index),
                     .layer = layer_id,
                     .index = index,
                     .final_layer = layer_id,
                     .lr_mult = param.lr_mult(),
                     .decay_mult = param.decay_mult(),
                     .learned = At(defs_.back(), index).learned});
  lr_mult_given_.push_back(param.has_lr_mult());
  decay_mult_given_.push_back(param.has_decay_mult());
  if (!param.name().empty()) by_name_[param.name()] = owner;
  owners_.back().push_back(owner);
}

template <typename T>
void ParamBuilder<T>::Share(Layer<T>& layer, int index, const ParamSpec& param, int owner) {
  const LayerSpec& spec = layer.spec();
  Param<T>& owned = At(params_, owner);
  const Blob<T>& blob = layer.blob(index);
  const std::string path = fmt::format("param[{}]", index);
  const bool permissive = param.share_mode() == ParamSpec::PERMISSIVE;
  const bool fits =
      permissive ? blob.count() == owned.blob->count() : blob.shape() == owned.blob->shape();
  spec.Check(fits, path + ".name",
             fmt::format("the shared parameter \"{}\" has shape {} here and {} in layer \"{}\"",
                         param.name(), blob.shape().ToString(), owned.blob->shape().ToString(),
                         owned.layer == graph_.size() ? layer.name()
                                                      : At(graph_.layers, owned.layer)->name()),
             permissive
                 ? "the counts must be equal"
                 : "the shapes must be equal; share_mode: PERMISSIVE asks for equal counts only");
  const auto settle = [&](bool given, float value, std::vector<bool>& given_before, float& kept,
                          const char* what) {
    if (!given) return;
    const bool before = At(given_before, owner);
    spec.Check(!before || value == kept, fmt::format("{}.{}", path, what),
               fmt::format("the shared parameter \"{}\" has {} {} here and {} before", param.name(),
                           what, value, kept),
               "give it in one place only, or the same value everywhere");
    kept = value;
    At(given_before, owner) = true;
  };
  settle(param.has_lr_mult(), param.lr_mult(), lr_mult_given_, owned.lr_mult, "lr_mult");
  settle(param.has_decay_mult(), param.decay_mult(), decay_mult_given_, owned.decay_mult,
         "decay_mult");
  // The owner lies before this layer, so the gradient stays final after the owner's Backward.
  owners_.back().push_back(owner);
}

template <typename T>
std::unique_ptr<Parameters<T>> ParamBuilder<T>::Finish() {
  return std::make_unique<Parameters<T>>(graph_, std::move(params_), std::move(owners_),
                                         std::move(defs_));
}

template class ParamBuilder<float>;
template class ParamBuilder<double>;

}  // namespace carafe
