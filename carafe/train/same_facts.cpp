#include "carafe/train/same_facts.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "carafe/base/error.h"
#include "carafe/base/hash.h"
#include "carafe/base/index.h"
#include "carafe/layers/data_layer.h"

namespace carafe {
namespace {

using Facts = std::map<std::string, std::string>;

std::string Shown(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() || found->second.empty() ? "nothing" : found->second;
}

// Clears "message.field" where the layer has it.
void ClearField(LayerParameter* layer, const std::string& path) {
  const size_t dot = path.find('.');
  const auto* message = layer->GetDescriptor()->FindFieldByName(path.substr(0, dot));
  Ensure(message != nullptr && dot != std::string::npos, "a layer names a field that is unknown");
  if (!layer->GetReflection()->HasField(*layer, message)) return;
  auto* param = layer->GetReflection()->MutableMessage(layer, message);
  const auto* field = param->GetDescriptor()->FindFieldByName(path.substr(dot + 1));
  Ensure(field != nullptr, "a layer names a field that is unknown");
  param->GetReflection()->ClearField(param, field);
}

// A host may have its files elsewhere.
void ClearFileNames(LayerParameter* layer) {
  const FileSettings* files = FileSettingsRegistry::Instance().Find(layer->type());
  if (files == nullptr) return;
  for (const std::string& field : files->fields) ClearField(layer, field);
}

}  // namespace

void CheckSame(Group& group, const std::vector<NamedFact>& mine, const std::string& fix) {
  if (group.size() == 1) return;
  nlohmann::json packed = nlohmann::json::object();
  for (const NamedFact& fact : mine) packed[fact.name] = fact.value;
  const std::string text = packed.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  std::vector<Facts> all;
  for (const std::string& part : group.AllGather(text, "settings of all ranks"))
    all.push_back(nlohmann::json::parse(part).get<Facts>());
  group.Together("the comparison of settings", [&] {  // every rank finds the same
    for (int r = 1; r < group.size(); ++r) {
      Facts names = all[0];
      names.insert(At(all, r).begin(), At(all, r).end());
      for (const auto& [name, unused] : names) {
        const std::string here = Shown(all[0], name), there = Shown(At(all, r), name);
        if (here == there) continue;
        throw ConfigError(fmt::format("{} differs: {} on rank 0 ({}), {} on rank {} ({})", name,
                                      here, group.host(0), there, r, group.host(r)),
                          fix);
      }
    }
  });
}

template <typename T>
std::vector<NamedFact> DataFacts(const Net<T>& net) {
  std::vector<NamedFact> facts;
  for (const auto& layer : net.layers()) {
    if (const DataLayer* data = AsDataLayer(*layer)) {
      facts.push_back(
          {fmt::format("the data of layer \"{}\"", layer->name()), data->data_set().Fingerprint()});
    }
  }
  return facts;
}

template <typename T>
NamedFact NetFact(const Net<T>& net) {
  uint64_t hash = 0;
  for (const auto& layer : net.layers()) {
    LayerParameter param = layer->spec().param();
    ClearFileNames(&param);
    const std::string bytes = param.SerializeAsString();
    hash = Hash64(bytes.data(), bytes.size(), hash);
  }
  return {fmt::format("the content of the {} net", net.phase() == TRAIN ? "training" : "test"),
          fmt::format("{} layers, hash {:016x}", net.layers().size(), hash)};
}

template NamedFact NetFact(const Net<float>& net);
template NamedFact NetFact(const Net<double>& net);
template std::vector<NamedFact> DataFacts(const Net<float>& net);
template std::vector<NamedFact> DataFacts(const Net<double>& net);

}  // namespace carafe
