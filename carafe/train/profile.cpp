#include "carafe/train/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/index.h"
#include "carafe/base/timer.h"
#include "carafe/exchange/measure_rates.h"
#include "carafe/kernels/math.h"

namespace carafe {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "carafe profile 1";
constexpr int64_t kFloat = sizeof(float);
constexpr double kMostBytes = 64e9;  // of one gradient

// v = mu v + rate g; w -= v, which is the memory traffic of SGD with momentum. Gigabytes of g per
// second, the best of some rounds.
double UpdateRate(Stream& stream) {
  constexpr int64_t kCount = int64_t{4} << 20;
  Blob<float> w(Shape{kCount}), v(Shape{kCount});
  double best = 1e9;
  for (int i = 0; i < 4; ++i) {
    const Timer timer;
    Scale(stream, kCount, 0.9f, v.data(stream), v.mutable_data(stream));
    Axpy(stream, kCount, 0.01f, w.data(stream), v.mutable_data(stream));
    Axpy(stream, kCount, -1.f, v.data(stream), w.mutable_data(stream));
    stream.Synchronize();
    if (i > 0) best = std::min(best, timer.Seconds());  // the first takes the memory
  }
  return 1e-9 * static_cast<double>(kCount * kFloat) / best;
}

double GemmRate(const MachineProfile& profile) {
  std::vector<LayerSize> sizes;
  for (const ProfiledLayer& layer : profile.layers)
    for (const ProfiledParam& param : layer.params)
      if (param.factors.rows > 0)
        sizes.push_back({.inputs = param.factors.b_width,
                         .outputs = param.factors.a_width,
                         .rows = param.factors.rows});
  if (sizes.empty()) sizes.push_back({.inputs = 1024, .outputs = 1024, .rows = 64});
  Stream host(CpuDevice(), profile.threads);  // factors are multiplied there
  return 1e-9 * ProductRate<float>(host, sizes, 2);
}

// Reads fields and names the one that is wrong.
class Fields {
 public:
  Fields(const Json& json, std::string path, std::string where)
      : json_(json), path_(std::move(path)), where_(std::move(where)) {
    if (!json.is_object()) Refuse(fmt::format("{} is no object", where_));
  }
  std::string Text(const char* name) const {
    const Json& field = Get(name);
    if (!field.is_string()) Refuse(fmt::format("\"{}\" of {} is no text", name, where_));
    return field.get<std::string>();
  }
  double Number(const char* name, double least, double most) const {
    const Json& field = Get(name);
    const double value = field.is_number() ? field.get<double>() : NAN;
    if (!(value >= least && value <= most))
      Refuse(fmt::format("\"{}\" of {} is no number from {:g} to {:g}", name, where_, least, most));
    return value;
  }
  int64_t Integer(const char* name, double least, double most) const {
    return static_cast<int64_t>(Number(name, least, most));
  }
  bool Has(const char* name) const { return json_.contains(name); }
  const Json& Get(const char* name) const {
    if (!Has(name)) Refuse(fmt::format("{} has no \"{}\"", where_, name));
    return json_.at(name);
  }
  const Json& Array(const char* name) const {
    if (!Get(name).is_array()) Refuse(fmt::format("\"{}\" of {} is no list", name, where_));
    return Get(name);
  }
  [[noreturn]] void Refuse(const std::string& what) const {
    throw DataError(path_, -1, "this is no profile of a machine: " + what,
                    "write one: carafe time --model=NET --profile=FILE");
  }

 private:
  const Json& json_;
  const std::string path_, where_;
};

ProfiledParam ReadParam(const Json& json, const std::string& path, const std::string& layer) {
  const std::string where = "a gradient of layer " + layer;
  const Fields fields(json, path, where);
  ProfiledParam param{.bytes = fields.Integer("bytes", 0, kMostBytes)};
  if (param.bytes % kFloat != 0) fields.Refuse(where + " is no array of floats");
  if (!fields.Has("factors")) return param;
  const Fields factors(fields.Get("factors"), path, "\"factors\" of " + where);
  param.factors = {factors.Integer("rows", 1, 1e9), factors.Integer("outputs", 1, 1e9),
                   factors.Integer("inputs", 1, 1e9)};
  if (static_cast<double>(param.factors.a_width) * static_cast<double>(param.factors.b_width) *
          kFloat !=
      static_cast<double>(param.bytes))
    factors.Refuse(fmt::format("outputs times inputs of {} are not its bytes", where));
  return param;
}

ProfiledLayer ReadLayer(const Json& json, const std::string& path) {
  constexpr double kMostMs = 1e9;
  const Fields fields(json, path, "a layer");
  ProfiledLayer layer{.name = fields.Text("name"), .type = fields.Text("type")};
  const Fields named(json, path, "layer " + layer.name);
  layer.forward_ms = named.Number("forward_ms", 0, kMostMs);
  layer.backward_ms = named.Number("backward_ms", 0, kMostMs);
  for (const Json& param : named.Array("gradients"))
    layer.params.push_back(ReadParam(param, path, layer.name));
  return layer;
}

}  // namespace

bool ProfiledParam::operator==(const ProfiledParam& other) const {
  return bytes == other.bytes && factors.rows == other.factors.rows &&
         factors.a_width == other.factors.a_width && factors.b_width == other.factors.b_width;
}

MachineProfile ProfileOfNet(const Net<float>& net) {
  MachineProfile profile{.net = net.name(), .device = "cpu"};
  for (const auto& layer : net.layers())
    profile.layers.push_back({.name = layer->name(), .type = layer->spec().param().type()});
  for (int p = 0; p < Count(net.params()); ++p) {
    const Param<float>& param = At(net.params(), p);
    if (param.learned && param.frozen()) continue;
    ProfiledParam profiled{.bytes = param.blob->count() * kFloat};
    if (const int64_t rows = param.learned ? net.FactorRows(p) : 0; rows > 0)
      profiled.factors = {rows, param.blob->shape()[0], param.blob->shape().Count(1)};
    At(profile.layers, param.final_layer).params.push_back(profiled);
  }
  if (!net.blobs().empty() && net.blobs()[0]->shape().rank() > 0)
    profile.batch = net.blobs()[0]->shape()[0];
  return profile;
}

MachineProfile MeasureProfile(Stream& stream, const Net<float>& net, const NetTime& time) {
  MachineProfile profile = ProfileOfNet(net);
  Ensure(profile.layers.size() == time.layers.size(), "times of another net");
  for (size_t l = 0; l < time.layers.size(); ++l) {
    profile.layers[l].forward_ms = time.layers[l].forward_ms;
    profile.layers[l].backward_ms = time.layers[l].backward_ms;
  }
  profile.device = stream.on_cpu() ? "cpu" : "gpu";
  profile.threads = stream.threads();
  profile.gflops = GemmRate(profile);
  profile.update_gb = UpdateRate(stream);
  return profile;
}

std::string ProfileJson(const MachineProfile& profile) {
  Json layers = Json::array();
  for (const ProfiledLayer& layer : profile.layers) {
    Json gradients = Json::array();
    for (const ProfiledParam& param : layer.params) {
      Json gradient = {{"bytes", param.bytes}};
      if (param.factors.rows > 0)
        gradient["factors"] = {{"rows", param.factors.rows},
                               {"outputs", param.factors.a_width},
                               {"inputs", param.factors.b_width}};
      gradients.push_back(gradient);
    }
    layers.push_back({{"name", layer.name},
                      {"type", layer.type},
                      {"forward_ms", layer.forward_ms},
                      {"backward_ms", layer.backward_ms},
                      {"gradients", gradients}});
  }
  const Json json = {{"format", kFormat},
                     {"net", profile.net},
                     {"batch", profile.batch},
                     {"device", profile.device},
                     {"threads", profile.threads},
                     {"gemm_gflops", profile.gflops},
                     {"update_gb_per_second", profile.update_gb},
                     {"layers", layers}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

MachineProfile ReadProfile(const std::string& path) {
  const std::string text = ReadFile(path);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) Fields(Json::object(), path, "the file").Refuse("it is not JSON");
  const Fields fields(json, path, "the file");
  if (fields.Text("format") != kFormat)
    fields.Refuse(fmt::format("\"format\" is not \"{}\"", kFormat));
  constexpr double kMost = 1e9;
  MachineProfile profile{.net = fields.Text("net"),
                         .device = fields.Text("device"),
                         .batch = fields.Integer("batch", 0, kMost),
                         .threads = static_cast<int>(fields.Integer("threads", 0, 1e6)),
                         .gflops = fields.Number("gemm_gflops", 1e-6, kMost),
                         .update_gb = fields.Number("update_gb_per_second", 1e-6, kMost)};
  for (const Json& layer : fields.Array("layers")) profile.layers.push_back(ReadLayer(layer, path));
  return profile;
}

void CheckProfile(const MachineProfile& profile, const std::string& path, const Net<float>& net,
                  const std::string& net_file) {
  const MachineProfile expected = ProfileOfNet(net);
  const std::string fix =
      fmt::format("write one of this net: carafe time --model={} --profile={}", net_file, path);
  const auto refuse = [&](const std::string& what) { throw ConfigError({path}, what, fix); };
  const size_t count = std::min(profile.layers.size(), expected.layers.size());
  for (size_t l = 0; l < count; ++l) {
    const ProfiledLayer &is = profile.layers[l], &should = expected.layers[l];
    if (is.name != should.name)
      refuse(fmt::format("the profile has layer \"{}\" where {} has \"{}\"", is.name, net_file,
                         should.name));
    if (is.params != should.params)
      refuse(fmt::format("the gradients or rows of layer \"{}\" are not those of {}", is.name,
                         net_file));
  }
  if (profile.layers.size() != expected.layers.size())
    refuse(fmt::format("the profile has {} layers, {} has {}", profile.layers.size(), net_file,
                       expected.layers.size()));
}

SimNet SimNetOf(const MachineProfile& profile) {
  SimNet net{.update_per_byte = 1e-9 / profile.update_gb, .flops = 1e9 * profile.gflops};
  for (const ProfiledLayer& layer : profile.layers) {
    SimLayer& simulated = net.layers.emplace_back();
    simulated.forward = 1e-3 * layer.forward_ms;
    simulated.backward = 1e-3 * layer.backward_ms;
    for (const ProfiledParam& param : layer.params) {
      simulated.params.push_back(Count(net.params));
      net.params.push_back({.count = param.bytes / kFloat, .factors = param.factors});
    }
  }
  return net;
}

}  // namespace carafe
