#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "benchmarks/exchange/modes.h"
#include "carafe/base/error.h"
#include "carafe/train/placeholder_data.h"
#include "carafe/train/timing.h"

namespace carafe {

std::vector<LayerProfile> ReadProfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw DataError(path, -1, "the profile cannot be read", "write it with --profile_of");
  std::vector<LayerProfile> layers;
  try {
    const nlohmann::json whole = nlohmann::json::parse(file);
    for (const nlohmann::json& layer : whole.at("layers"))
      layers.push_back({.name = layer.at("name"),
                        .forward = layer.at("forward"),
                        .backward = layer.at("backward"),
                        .params = layer.at("params")});
  } catch (const nlohmann::json::exception& error) {
    throw DataError(path, -1, error.what(), "write it anew with --profile_of");
  }
  return layers;
}

void WriteProfile(const std::string& model, const std::vector<int64_t>& item, int threads,
                  int iterations, const std::string& path) {
  NetState state;
  state.set_phase(TRAIN);
  std::vector<std::string> notes;
  const NetSpec spec = WithPlaceholderData(LoadNetSpec(model), state, item, &notes);
  Net<float> net(spec, state);
  Stream stream(CpuDevice(), threads);
  net.Initialise(stream, 1);
  const NetTime time = TimeNet(stream, net, iterations);
  nlohmann::json layers = nlohmann::json::array();
  for (size_t l = 0; l < time.layers.size(); ++l) {
    nlohmann::json params = nlohmann::json::array();
    for (const Param<float>& param : net.params())
      if (param.layer == static_cast<int>(l) && !param.frozen())
        params.push_back(param.blob->count());
    layers.push_back({{"name", time.layers[l].name},
                      {"forward", time.layers[l].forward_ms / 1000},
                      {"backward", time.layers[l].backward_ms / 1000},
                      {"params", params}});
  }
  std::ofstream(path) << nlohmann::json{{"model", model}, {"threads", threads}, {"layers", layers}};
}

}  // namespace carafe
