#include "carafe/train/same_facts.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "carafe/base/error.h"
#include "carafe/base/hash.h"
#include "carafe/data/hdf5_rows.h"
#include "carafe/data/source.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

using Facts = std::map<std::string, std::string>;

std::string Shown(const Facts& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() || found->second.empty() ? "nothing" : found->second;
}

// A key as it can be printed: at most 40 characters, without control codes.
std::string Printable(std::string_view key) {
  std::string text;
  for (const char c : key.substr(0, 40))
    text += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
  return text;
}

std::string Describe(const Source& source) {
  const int64_t size = source.size();
  const Record first = source.Read(0), last = source.Read(size - 1);
  return fmt::format("{} records, keys \"{}\" to \"{}\"", size, Printable(first.key),
                     Printable(last.key));
}

// Lines have no keys of their own; they are in memory, so all can be compared.
std::string DescribeList(const Source& list) {
  const int64_t size = list.size();
  const Record first = list.Read(0), last = list.Read(size - 1);
  uint64_t hash = 0;
  for (int64_t i = 0; i < size; ++i) {
    const Record line = list.Read(i);
    hash = Hash64(line.value.data(), line.value.size(), hash);
  }
  return fmt::format("{} lines, \"{}\" to \"{}\", hash {:016x}", size, Printable(first.value),
                     Printable(last.value), hash);
}

std::string DescribeHdf5(const LayerParameter& param) {
  const std::string& source = param.hdf5_data_param().source();
  return fmt::format("{} rows, {}",
                     Hdf5Rows(source, {param.top().begin(), param.top().end()}).size(),
                     DescribeList(*OpenList(source)));
}

// A host may have its files elsewhere.
void ForgetPlaces(LayerParameter* param) {
  if (param->has_data_param()) param->mutable_data_param()->clear_source();
  if (param->has_hdf5_data_param()) param->mutable_hdf5_data_param()->clear_source();
  if (param->has_hdf5_output_param()) param->mutable_hdf5_output_param()->clear_file_name();
  const auto forget = [](auto* pictures) {
    pictures->clear_source();
    pictures->clear_root_folder();
    pictures->clear_mean_file();
  };
  if (param->has_image_data_param()) forget(param->mutable_image_data_param());
  if (param->has_window_data_param()) forget(param->mutable_window_data_param());
  for (CarafeParallelDataParameter* raw :
       {param->has_parallel_data_param() ? param->mutable_parallel_data_param() : nullptr,
        param->has_parallel_inmem_data_param() ? param->mutable_parallel_inmem_data_param()
                                               : nullptr}) {
    if (raw == nullptr) continue;
    forget(raw);
    raw->clear_label();
  }
  if (param->has_transform_param()) param->mutable_transform_param()->clear_mean_file();
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
  std::string error;
  for (int r = 1; r < group.size() && error.empty(); ++r) {
    const Facts& other = all[static_cast<size_t>(r)];
    Facts names = all[0];
    names.insert(other.begin(), other.end());
    for (const auto& [name, unused] : names) {
      if (Shown(all[0], name) == Shown(other, name)) continue;
      error = ConfigError(fmt::format("{} differs: {} on rank 0 ({}), {} on rank {} ({})", name,
                                      Shown(all[0], name), group.host(0), Shown(other, name), r,
                                      group.host(r)),
                          fix)
                  .what();
      break;
    }
  }
  group.Agree(error);  // all have found the same
}

template <typename T>
std::vector<NamedFact> DataFacts(const Net<T>& net) {
  std::vector<NamedFact> facts;
  for (const auto& layer : net.layers()) {
    const LayerParameter& param = layer->spec().param();
    const std::string name = fmt::format("the data of layer \"{}\"", param.name());
    if (param.type() == "Data") {
      facts.push_back({name, Describe(*OpenSource(param.data_param(), OwnerOf(layer->spec())))});
    } else if (param.type() == "ImageData") {
      facts.push_back({name, DescribeList(*OpenList(param.image_data_param().source()))});
    } else if (param.type() == "HDF5Data") {
      facts.push_back({name, DescribeHdf5(param)});
    } else if (param.type() == "WindowData") {
      facts.push_back({name, DescribeList(*OpenList(param.window_data_param().source()))});
    }
  }
  return facts;
}

template <typename T>
NamedFact NetFact(const Net<T>& net) {
  uint64_t hash = 0;
  for (const auto& layer : net.layers()) {
    LayerParameter param = layer->spec().param();
    ForgetPlaces(&param);
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
