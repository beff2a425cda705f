// Split insertion: see net_spec.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "carafe/base/suggest.h"
#include "carafe/layers/layer.h"
#include "carafe/net/net_spec.h"

namespace carafe {
namespace {

using Top = std::pair<int, int>;  // layer index, top index

// Which layers use which top, and whether the top counts as a loss.
struct Uses {
  std::map<Top, int> count;
  std::map<Top, float> loss_weight;
  std::map<std::pair<int, int>, Top> producer;  // of (layer, bottom)
};

std::string SplitName(const std::string& blob, const std::string& layer, int top) {
  return fmt::format("{}_{}_{}_split", blob, layer, top);
}

std::string SplitTop(const std::string& blob, const std::string& layer, int top, int index) {
  return fmt::format("{}_{}", SplitName(blob, layer, top), index);
}

Uses FindUses(const std::vector<LayerText>& layers) {
  Uses uses;
  std::map<std::string, Top> latest;  // by name: the newest producer (layers in place count)
  for (int i = 0; i < Count(layers); ++i) {
    const LayerParameter& param = At(layers, i).param;
    for (int j = 0; j < param.bottom_size(); ++j) {
      const auto found = latest.find(param.bottom(j));
      if (found == latest.end()) {
        std::vector<std::string> names;
        for (const auto& [name, top] : latest) names.push_back(name);
        std::string fix =
            names.empty() ? "put a data or Input layer first" : DidYouMean(param.bottom(j), names);
        const auto later =
            std::ranges::find_if(layers.begin() + i, layers.end(), [&](const LayerText& other) {
              return std::ranges::find(other.param.top(), param.bottom(j)) !=
                     other.param.top().end();
            });
        if (later != layers.end()) {
          fix = fmt::format("layer \"{}\" produces it: put that one before", later->param.name());
        }
        LayerSpec(param, TRAIN, At(layers, i).place)
            .Fail(fmt::format("bottom[{}]", j),
                  fmt::format("no earlier layer produces the bottom \"{}\"", param.bottom(j)), fix);
      }
      uses.producer[{i, j}] = found->second;
      ++uses.count[found->second];
    }
    for (int j = 0; j < param.top_size(); ++j) latest[param.top(j)] = {i, j};
    // A loss without loss_weight counts through its type; only weights that the file gives matter
    // here.
    for (int j = 0; j < std::min(param.loss_weight_size(), param.top_size()); ++j) {
      if (param.loss_weight(j) == 0) continue;
      uses.loss_weight[{i, j}] = param.loss_weight(j);
      ++uses.count[{i, j}];
    }
  }
  return uses;
}

LayerText MakeSplit(const LayerText& producer, int top, int count, float loss_weight) {
  LayerText split;
  split.place = producer.place;
  const std::string& blob = producer.param.top(top);
  const std::string& layer = producer.param.name();
  split.param.set_name(SplitName(blob, layer, top));
  split.param.set_type("Split");
  split.param.add_bottom(blob);
  for (int k = 0; k < count; ++k) {
    split.param.add_top(SplitTop(blob, layer, top, k));
    if (loss_weight != 0) split.param.add_loss_weight(k == 0 ? loss_weight : 0);
  }
  return split;
}

}  // namespace

std::vector<LayerText> InsertSplits(const std::vector<LayerText>& layers) {
  const Uses uses = FindUses(layers);
  std::map<Top, int> next;  // which output of a split the next user gets
  std::vector<LayerText> result;
  for (int i = 0; i < Count(layers); ++i) {
    LayerText layer = At(layers, i);
    for (int j = 0; j < layer.param.bottom_size(); ++j) {
      const Top from = uses.producer.at({i, j});
      if (uses.count.at(from) < 2) continue;
      // A loss takes output 0 for itself.
      int& index = next.try_emplace(from, uses.loss_weight.contains(from) ? 1 : 0).first->second;
      const LayerText& producer = At(layers, from.first);
      layer.param.set_bottom(j, SplitTop(producer.param.top(from.second), producer.param.name(),
                                         from.second, index++));
    }
    std::vector<LayerText> splits;
    for (int j = 0; j < layer.param.top_size(); ++j) {
      const auto count = uses.count.find({i, j});
      if (count == uses.count.end() || count->second < 2) continue;
      const auto weight = uses.loss_weight.find({i, j});
      const float loss_weight = weight == uses.loss_weight.end() ? 0 : weight->second;
      splits.push_back(MakeSplit(At(layers, i), j, count->second, loss_weight));
      if (loss_weight != 0) layer.param.set_loss_weight(j, 0);
    }
    result.push_back(std::move(layer));
    for (LayerText& split : splits) result.push_back(std::move(split));
  }
  return result;
}

}  // namespace carafe
