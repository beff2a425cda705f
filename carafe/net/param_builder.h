// Collects the parameters that layers declare while a graph is built, and shares them by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "carafe/net/parameters.h"

namespace carafe {

template <typename T>
class ParamBuilder {
 public:
  explicit ParamBuilder(const Graph<T>& graph) : graph_(graph) {}

  // For the layer that is about to be added to the graph: makes its blobs. Throws ConfigError for
  // `param` entries that do not fit.
  void Add(Layer<T>& layer, std::vector<ParamDef> defs);
  std::unique_ptr<Parameters<T>> Finish();

 private:
  void AddOne(Layer<T>& layer, int index, const ParamSpec& param);
  void Share(Layer<T>& layer, int index, const ParamSpec& param, int owner);

  const Graph<T>& graph_;
  std::vector<Param<T>> params_;
  std::vector<bool> lr_mult_given_, decay_mult_given_;  // by parameter, by any sharer so far
  std::map<std::string, int> by_name_;
  std::vector<std::vector<int>> owners_;
  std::vector<std::vector<ParamDef>> defs_;
};

}  // namespace carafe
