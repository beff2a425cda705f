// Building a net: filter, splits, then layer by layer bottoms, tops, shapes and parameters; at last
// who needs a gradient.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "carafe/base/suggest.h"
#include "carafe/net/net.h"
#include "carafe/net/row_axes.h"

namespace carafe {
namespace {

std::string ArityText(const Arity& arity) {
  if (arity.min == arity.max) return fmt::format("{}", arity.min);
  if (arity.max == Arity::kAny) return fmt::format("at least {}", arity.min);
  return fmt::format("{} to {}", arity.min, arity.max);
}

void CheckArity(const LayerSpec& spec, const char* what, const Arity& arity, int given,
                const char* fix) {
  spec.Check(arity.min <= given && given <= arity.max, what,
             fmt::format("it has {} {}s, but takes {}", given, what, ArityText(arity)), fix);
}

void CheckArities(const LayerSpec& spec, const LayerInfo& info) {
  const int bottoms = spec.param().bottom_size(), tops = spec.param().top_size();
  CheckArity(spec, "bottom", info.bottoms, bottoms, "add or remove `bottom:` lines");
  Arity written = info.tops;
  if (info.is_loss) written.min = 0;  // missing tops of a loss are made
  CheckArity(spec, "top", written, tops, "add or remove `top:` lines");
  spec.Check(!info.as_many_tops || tops == bottoms, "top",
             fmt::format("it has {} bottoms and {} tops, but needs as many tops as bottoms",
                         bottoms, tops),
             "give one top per bottom");
}

// Forms of a net that would be misread: they must not pass in silence.
void CheckForm(const NetSpec& spec) {
  const NetParameter& param = spec.param;
  const auto check = [&](bool condition, const char* path, const char* what, const char* fix) {
    if (!condition) throw ConfigError(spec.place.Find(path), what, fix);
  };
  check(param.layers_size() == 0 && param.input_size() == 0, "",
        "the net was made in memory in an old form (`layers` or `input`)",
        "call Upgrade() on its NetSpec first");
  check(param.layer_size() > 0, "", "the net has no layers", "add `layer { ... }` entries");
}

}  // namespace

template <typename T>
Net<T>::Net(const NetSpec& spec, const NetState& state) : name_(spec.param.name()), state_(state) {
  CheckForm(spec);
  for (const LayerText& layer : InsertSplits(FilterLayers(spec.Layers(), state))) AddLayer(layer);
  FindBackwardNeed();
  if (spec.param.force_backward()) ForceBackward();
  FinishStructure();
  TellRowAxes(*this);
  LayOutParams();
  AlgorithmChoices choices;
  if (const char* asked = std::getenv("CARAFE_ALGORITHM"); asked != nullptr) choices.asked = asked;
  SetPlan(choices);
}

template <typename T>
void Net<T>::AddLayer(const LayerText& text) {
  LayerParameter param = text.param;
  if (!param.has_phase()) param.set_phase(state_.phase());
  const LayerSpec spec(param, param.phase(), text.place);
  const LayerInfo& info = FindLayer(spec).info;
  CheckArities(spec, info);
  spec.Check(param.propagate_down_size() == 0 || param.propagate_down_size() == param.bottom_size(),
             "propagate_down",
             fmt::format("propagate_down is given {} times for {} bottoms",
                         param.propagate_down_size(), param.bottom_size()),
             "give it once per bottom, or not at all");
  std::vector<bool> needs;
  const Shapes bottom = ConnectBottoms(spec, &needs);
  std::unique_ptr<Layer<T>> layer = MakeLayer<T>(spec);
  ConnectTops(spec, info);
  Shapes top;
  try {
    top = layer->InferShapes(bottom);
    param_defs_.push_back(layer->DeclareParams(bottom));
  } catch (const ConfigError& error) {
    // Errors of Shape know no layer; those of the layer itself do.
    const std::string text_of = error.what();
    if (text_of.find("layer \"") != std::string::npos || !text_of.starts_with("error: ")) throw;
    const size_t fix = text_of.find("\n  fix: ");
    spec.Fail("", text_of.substr(7, fix == std::string::npos ? fix : fix - 7),
              fix == std::string::npos ? "" : text_of.substr(fix + 8));
  }
  Ensure(top.size() >= tops_.back().size(), "a layer inferred too few tops");
  for (size_t t = 0; t < tops_.back().size(); ++t) tops_.back()[t]->Reshape(top[t]);
  SetLossWeights(spec, info, *layer);
  AddParams(spec, *layer, bottom);
  // It needs Backward if a bottom does, or a parameter learns (by the file's own words, as in
  // Caffe).
  bool need = std::ranges::any_of(
      bottom_ids_.back(), [&](int id) { return blob_needs_backward_[static_cast<size_t>(id)]; });
  for (size_t i = 0; i < layer->blobs().size(); ++i) {
    const bool learns = static_cast<int>(i) >= param.param_size() ||
                        param.param(static_cast<int>(i)).lr_mult() != 0;
    layer->set_param_propagate_down(static_cast<int>(i), learns);
    need = need || learns;
  }
  layer_needs_backward_.push_back(need);
  propagate_down_.push_back(needs);
  if (need) {
    for (const int id : top_ids_.back()) blob_needs_backward_[static_cast<size_t>(id)] = true;
  }
  layers_.push_back(std::move(layer));
}

template <typename T>
Shapes Net<T>::ConnectBottoms(const LayerSpec& spec, std::vector<bool>* needs) {
  const LayerParameter& param = spec.param();
  bottoms_.emplace_back();
  bottom_ids_.emplace_back();
  Shapes shapes;
  for (int j = 0; j < param.bottom_size(); ++j) {
    const auto found = available_.find(param.bottom(j));
    Ensure(found != available_.end(), "splits left a bottom without a producer");
    const int id = found->second;
    available_.erase(found);
    bottoms_.back().push_back(blobs_[static_cast<size_t>(id)].get());
    bottom_ids_.back().push_back(id);
    shapes.push_back(blobs_[static_cast<size_t>(id)]->shape());
    needs->push_back(param.propagate_down_size() > 0
                         ? param.propagate_down(j)
                         : blob_needs_backward_[static_cast<size_t>(id)]);
  }
  return shapes;
}

template <typename T>
void Net<T>::ConnectTops(const LayerSpec& spec, const LayerInfo& info) {
  const LayerParameter& param = spec.param();
  tops_.emplace_back();
  top_ids_.emplace_back();
  const int count = info.is_loss ? std::max(param.top_size(), info.tops.min) : param.top_size();
  for (int j = 0; j < count; ++j) {
    const std::string top = j < param.top_size() ? param.top(j) : "(automatic)";
    const bool in_place = j < param.top_size() && j < param.bottom_size() && top == param.bottom(j);
    int id;
    if (in_place) {
      id = bottom_ids_.back()[static_cast<size_t>(j)];
    } else {
      const auto made = blob_index_.find(top);
      if (made != blob_index_.end() && j < param.top_size()) {
        spec.Fail(fmt::format("top[{}]", j),
                  fmt::format("the top \"{}\" is produced by layer \"{}\" already", top,
                              producer_[static_cast<size_t>(made->second)]),
                  "give it another name; only a layer that reads it as the bottom of the same "
                  "position may write it in place");
      }
      id = static_cast<int>(blobs_.size());
      blobs_.push_back(std::make_unique<Blob<T>>());
      blob_names_.push_back(top);
      producer_.push_back(spec.name());
      blob_needs_backward_.push_back(false);
      blob_loss_weights_.push_back(0);
      if (j < param.top_size()) blob_index_[top] = id;
    }
    tops_.back().push_back(blobs_[static_cast<size_t>(id)].get());
    top_ids_.back().push_back(id);
    if (j < param.top_size()) available_[top] = id;
    if (param.type() == "Input") input_ids_.push_back(id);
  }
}

template <typename T>
void Net<T>::SetLossWeights(const LayerSpec& spec, const LayerInfo& info, Layer<T>&) {
  const LayerParameter& param = spec.param();
  const size_t tops = tops_.back().size();
  const size_t given = static_cast<size_t>(param.loss_weight_size());
  spec.Check(given == 0 || given == tops, "loss_weight",
             fmt::format("loss_weight is given {} times for {} tops", given, tops),
             "give it once per top, or not at all");
  std::vector<float> weights(tops, 0.0f);
  for (size_t t = 0; t < given; ++t) weights[t] = param.loss_weight(static_cast<int>(t));
  if (given == 0 && info.is_loss && tops > 0) weights[0] = 1;
  for (size_t t = 0; t < tops; ++t) {
    blob_loss_weights_[static_cast<size_t>(top_ids_.back()[t])] = weights[t];
  }
  loss_weights_.push_back(std::move(weights));
}

// From the end to the start: what leads to no loss, or feeds only what does not propagate, needs no
// Backward.
template <typename T>
void Net<T>::FindBackwardNeed() {
  std::set<std::string> under_loss, skipped;
  for (size_t l = layers_.size(); l-- > 0;) {
    bool contributes = false, all_skipped = true;
    for (size_t t = 0; t < tops_[l].size(); ++t) {
      const std::string& name = blob_names_[static_cast<size_t>(top_ids_[l][t])];
      contributes = contributes || loss_weights_[l][t] != 0 || under_loss.contains(name);
      all_skipped = all_skipped && skipped.contains(name);
    }
    if (layer_needs_backward_[l] && all_skipped) {
      layer_needs_backward_[l] = false;
      propagate_down_[l].assign(propagate_down_[l].size(), false);
    }
    if (!contributes) layer_needs_backward_[l] = false;
    for (size_t b = 0; b < bottom_ids_[l].size(); ++b) {
      const std::string& name = blob_names_[static_cast<size_t>(bottom_ids_[l][b])];
      if (contributes) {
        under_loss.insert(name);
      } else {
        propagate_down_[l][b] = false;
      }
      if (!propagate_down_[l][b]) skipped.insert(name);
    }
  }
}

template <typename T>
void Net<T>::ForceBackward() {
  for (size_t l = 0; l < layers_.size(); ++l) {
    layer_needs_backward_[l] = true;
    for (size_t b = 0; b < propagate_down_[l].size(); ++b) {
      propagate_down_[l][b] =
          propagate_down_[l][b] || layers_[l]->AllowForceBackward(static_cast<int>(b));
    }
    for (size_t p = 0; p < layers_[l]->blobs().size(); ++p) {
      layers_[l]->set_param_propagate_down(static_cast<int>(p), true);
    }
  }
}

template <typename T>
void Net<T>::FinishStructure() {
  for (const auto& [name, id] : available_) output_ids_.push_back(id);  // a map: alphabetical
  params_final_after_.resize(layers_.size());
  for (size_t p = 0; p < params_.size(); ++p) {
    params_final_after_[static_cast<size_t>(params_[p].final_layer)].push_back(static_cast<int>(p));
  }
  // Within a layer the later blob goes first, as everything runs backwards.
  for (std::vector<int>& params : params_final_after_) std::ranges::reverse(params);
}

template class Net<float>;
template class Net<double>;

}  // namespace carafe
