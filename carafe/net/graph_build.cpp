// Building a graph: filter, splits, then layer by layer bottoms, tops, shapes and parameters; at
// last what needs a gradient.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "carafe/net/graph.h"
#include "carafe/net/param_builder.h"

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

template <typename T>
class GraphBuilder {
 public:
  GraphBuilder(const NetSpec& spec, const NetState& state)
      : graph_(std::make_unique<Graph<T>>()), params_(*graph_) {
    CheckForm(spec);
    graph_->name = spec.param.name();
    graph_->state = state;
    for (const LayerText& layer : InsertSplits(FilterLayers(spec.Layers(), state))) AddLayer(layer);
    FindBackwardNeed();
    if (spec.param.force_backward()) ForceBackward();
    for (const auto& [name, id] : available_) graph_->output_ids.push_back(id);  // alphabetical
  }
  BuiltNet<T> Finish() {
    auto params = params_.Finish();
    return {std::move(graph_), std::move(params)};
  }

 private:
  void AddLayer(const LayerText& text);
  Shapes ConnectBottoms(const LayerSpec& spec);
  void ConnectTops(const LayerSpec& spec, const LayerInfo& info);
  int MakeTop(const LayerSpec& spec, int index, const std::string& name);
  std::vector<ParamDef> Declare(Layer<T>& layer, const Shapes& bottom);
  void SetLossWeights(const LayerSpec& spec, const LayerInfo& info);
  void FindNeed(Layer<T>& layer);
  void FindBackwardNeed();
  void ForceBackward();

  std::unique_ptr<Graph<T>> graph_;
  ParamBuilder<T> params_;
  std::vector<bool> blob_needs_backward_;
  std::map<std::string, int> available_;  // blobs that were produced and are not read yet
  std::vector<std::string> producer_;     // by blob: the layer that made it first
};

template <typename T>
void GraphBuilder<T>::AddLayer(const LayerText& text) {
  LayerParameter param = text.param;
  if (!param.has_phase()) param.set_phase(graph_->state.phase());
  const LayerSpec spec(param, param.phase(), text.place);
  const LayerInfo& info = FindLayer(spec).info;
  CheckArities(spec, info);
  const Shapes bottom = ConnectBottoms(spec);
  std::unique_ptr<Layer<T>> layer = MakeLayer<T>(spec);
  ConnectTops(spec, info);
  std::vector<ParamDef> defs = Declare(*layer, bottom);
  SetLossWeights(spec, info);
  params_.Add(*layer, std::move(defs));
  FindNeed(*layer);
  graph_->layers.push_back(std::move(layer));
}

template <typename T>
Shapes GraphBuilder<T>::ConnectBottoms(const LayerSpec& spec) {
  const LayerParameter& param = spec.param();
  spec.Check(param.propagate_down_size() == 0 || param.propagate_down_size() == param.bottom_size(),
             "propagate_down",
             fmt::format("propagate_down is given {} times for {} bottoms",
                         param.propagate_down_size(), param.bottom_size()),
             "give it once per bottom, or not at all");
  std::vector<Blob<T>*>& bottoms = graph_->bottoms.emplace_back();
  std::vector<int>& ids = graph_->bottom_ids.emplace_back();
  std::vector<bool>& propagate_down = graph_->propagate_down.emplace_back();
  Shapes shapes;
  for (int j = 0; j < param.bottom_size(); ++j) {
    const auto found = available_.find(param.bottom(j));
    Ensure(found != available_.end(), "splits left a bottom without a producer");
    const int id = found->second;
    available_.erase(found);
    bottoms.push_back(At(graph_->blobs, id).get());
    ids.push_back(id);
    shapes.push_back(bottoms.back()->shape());
    propagate_down.push_back(param.propagate_down_size() > 0 ? param.propagate_down(j)
                                                             : At(blob_needs_backward_, id));
  }
  return shapes;
}

template <typename T>
void GraphBuilder<T>::ConnectTops(const LayerSpec& spec, const LayerInfo& info) {
  const LayerParameter& param = spec.param();
  graph_->tops.emplace_back();
  graph_->top_ids.emplace_back();
  const int count = info.is_loss ? std::max(param.top_size(), info.tops.min) : param.top_size();
  for (int j = 0; j < count; ++j) {
    const bool named = j < param.top_size();
    const bool in_place = named && j < param.bottom_size() && param.top(j) == param.bottom(j);
    const int id = in_place ? At(graph_->bottom_ids.back(), j)
                            : MakeTop(spec, j, named ? param.top(j) : "(automatic)");
    graph_->tops.back().push_back(At(graph_->blobs, id).get());
    graph_->top_ids.back().push_back(id);
    if (named) available_[param.top(j)] = id;
    if (param.type() == "Input") graph_->input_ids.push_back(id);
  }
}

template <typename T>
int GraphBuilder<T>::MakeTop(const LayerSpec& spec, int index, const std::string& name) {
  const bool named = index < spec.param().top_size();
  const auto made = graph_->blob_index.find(name);
  if (named && made != graph_->blob_index.end()) {
    spec.Fail(fmt::format("top[{}]", index),
              fmt::format("the top \"{}\" is produced by layer \"{}\" already", name,
                          At(producer_, made->second)),
              "give it another name; only a layer that reads it as the bottom of the same "
              "position may write it in place");
  }
  const int id = Count(graph_->blobs);
  graph_->blobs.push_back(std::make_unique<Blob<T>>());
  graph_->blob_names.push_back(name);
  graph_->blob_loss_weights.push_back(0);
  producer_.push_back(spec.name());
  blob_needs_backward_.push_back(false);
  if (named) graph_->blob_index[name] = id;
  return id;
}

// Gives the tops their shapes; returns the parameters.
template <typename T>
std::vector<ParamDef> GraphBuilder<T>::Declare(Layer<T>& layer, const Shapes& bottom) {
  Shapes shapes;
  std::vector<ParamDef> params;
  try {
    shapes = layer.InferShapes(bottom);
    params = layer.DeclareParams(bottom);
  } catch (const ConfigError& error) {
    // Errors of Shape know no layer; those of the layer itself do.
    const ErrorFields& fields = error.fields();
    if (!fields.subject.empty() || !fields.where.file.empty()) throw;
    layer.spec().Fail("", fields.what, fields.fix);
  }
  const std::vector<Blob<T>*>& tops = graph_->tops.back();
  Ensure(shapes.size() >= tops.size(), "a layer inferred too few tops");
  for (size_t t = 0; t < tops.size(); ++t) tops[t]->Reshape(shapes[t]);
  return params;
}

template <typename T>
void GraphBuilder<T>::SetLossWeights(const LayerSpec& spec, const LayerInfo& info) {
  const LayerParameter& param = spec.param();
  const std::vector<int>& tops = graph_->top_ids.back();
  const int given = param.loss_weight_size();
  spec.Check(given == 0 || given == Count(tops), "loss_weight",
             fmt::format("loss_weight is given {} times for {} tops", given, tops.size()),
             "give it once per top, or not at all");
  std::vector<float> weights(param.loss_weight().begin(), param.loss_weight().end());
  weights.resize(tops.size(), 0.0f);
  if (given == 0 && info.is_loss && !tops.empty()) weights[0] = 1;
  for (size_t t = 0; t < tops.size(); ++t) At(graph_->blob_loss_weights, tops[t]) = weights[t];
  graph_->loss_weights.push_back(std::move(weights));
}

// A layer needs Backward if a bottom does, or a parameter learns (as the file says, as in Caffe).
template <typename T>
void GraphBuilder<T>::FindNeed(Layer<T>& layer) {
  const LayerParameter& param = layer.spec().param();
  bool need = std::ranges::any_of(graph_->bottom_ids.back(),
                                  [&](int id) { return bool{At(blob_needs_backward_, id)}; });
  for (int i = 0; i < Count(layer.blobs()); ++i) {
    const bool learns = i >= param.param_size() || param.param(i).lr_mult() != 0;
    layer.set_param_propagate_down(i, learns);
    need = need || learns;
  }
  graph_->needs_backward.push_back(need);
  if (!need) return;
  for (const int id : graph_->top_ids.back()) At(blob_needs_backward_, id) = true;
}

// From the end to the start: what leads to no loss, or feeds only what does not propagate, needs no
// Backward.
template <typename T>
void GraphBuilder<T>::FindBackwardNeed() {
  Graph<T>& g = *graph_;
  std::set<std::string> under_loss, skipped;
  for (size_t l = g.layers.size(); l-- > 0;) {
    bool contributes = false, all_skipped = true;
    for (size_t t = 0; t < g.tops[l].size(); ++t) {
      const std::string& name = At(g.blob_names, g.top_ids[l][t]);
      contributes = contributes || g.loss_weights[l][t] != 0 || under_loss.contains(name);
      all_skipped = all_skipped && skipped.contains(name);
    }
    if (g.needs_backward[l] && all_skipped) {
      g.needs_backward[l] = false;
      g.propagate_down[l].assign(g.propagate_down[l].size(), false);
    }
    if (!contributes) g.needs_backward[l] = false;
    for (size_t b = 0; b < g.bottom_ids[l].size(); ++b) {
      const std::string& name = At(g.blob_names, g.bottom_ids[l][b]);
      if (contributes) {
        under_loss.insert(name);
      } else {
        g.propagate_down[l][b] = false;
      }
      if (!g.propagate_down[l][b]) skipped.insert(name);
    }
  }
}

template <typename T>
void GraphBuilder<T>::ForceBackward() {
  for (int l = 0; l < graph_->size(); ++l) {
    Layer<T>& layer = *At(graph_->layers, l);
    At(graph_->needs_backward, l) = true;
    std::vector<bool>& propagate_down = At(graph_->propagate_down, l);
    for (int b = 0; b < Count(propagate_down); ++b) {
      At(propagate_down, b) = At(propagate_down, b) || layer.AllowForceBackward(b);
    }
    for (int p = 0; p < Count(layer.blobs()); ++p) layer.set_param_propagate_down(p, true);
  }
}

}  // namespace

template <typename T>
BuiltNet<T> BuildGraph(const NetSpec& spec, const NetState& state) {
  return GraphBuilder<T>(spec, state).Finish();
}

template BuiltNet<float> BuildGraph(const NetSpec&, const NetState&);
template BuiltNet<double> BuildGraph(const NetSpec&, const NetState&);

}  // namespace carafe
