#include "carafe/net/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/layers/planned.h"

namespace carafe {
namespace {

bool IsPlainRelu(const LayerParameter& param) {
  return param.type() == "ReLU" && param.relu_param().negative_slope() == 0;
}

// The next layer after `producer` that has the blob as a bottom, or -1.
template <typename T>
int NextReader(const Net<T>& net, int producer, int blob) {
  for (size_t l = static_cast<size_t>(producer) + 1; l < net.layers().size(); ++l) {
    if (std::ranges::find(net.bottom_ids()[l], blob) != net.bottom_ids()[l].end()) {
      return static_cast<int>(l);
    }
  }
  return -1;
}

// Ways of the same direction lie side by side.
std::string WhyNot(const PlannedWay& way, const std::vector<PlannedWay>& ways) {
  const auto taken = std::ranges::find_if(ways, [&](const PlannedWay& other) {
    return other.chosen && other.direction == way.direction;
  });
  if (taken == ways.end() || way.seconds == 0 || taken->seconds == 0) return "not by rule";
  const double ratio = way.seconds / taken->seconds;
  return ratio >= 1 ? fmt::format("{:.2f} times as slow", ratio)
                    : fmt::format("{:.2f} times as fast here, but not by rule", 1 / ratio);
}

std::string LineOf(const PlannedWay& way, const std::vector<PlannedWay>& ways) {
  std::string line = fmt::format("    {:<8} {} {:<12} {:<34}", way.direction,
                                 way.chosen ? "*" : " ", way.algorithm, way.formats);
  if (way.seconds > 0) line += fmt::format(" {:9.3f} ms", way.seconds * 1e3);
  if (way.scratch_bytes > 0) line += fmt::format("  scratch {} kB", way.scratch_bytes / 1000);
  if (!way.chosen) line += "  " + WhyNot(way, ways);
  return line + "\n";
}

}  // namespace

template <typename T>
std::vector<Fusion> FindFusions(const Net<T>& net) {
  std::vector<Fusion> found;
  for (size_t l = 0; l < net.layers().size(); ++l) {
    if (dynamic_cast<Planned*>(net.layers()[l].get()) == nullptr) continue;
    if (net.top_ids()[l].size() != 1) continue;
    const int blob = net.top_ids()[l][0];
    const int reader = NextReader(net, static_cast<int>(l), blob);
    if (reader < 0 || net.blob_loss_weight(blob) != 0) continue;
    const size_t r = static_cast<size_t>(reader);
    const bool in_place = net.top_ids()[r] == net.bottom_ids()[r];
    if (in_place && IsPlainRelu(net.layers()[r]->spec().param())) {
      found.push_back({static_cast<int>(l), reader});
    }
  }
  return found;
}

std::map<std::string, ConvolutionAlgorithm> MeasureAlgorithms(Stream& stream, const Net<float>& net,
                                                              int runs) {
  std::map<std::string, ConvolutionAlgorithm> fastest;
  for (size_t l = 0; l < net.layers().size(); ++l) {
    auto* planned = dynamic_cast<Planned*>(net.layers()[l].get());
    if (planned != nullptr) planned->Measure(stream, net.bottoms()[l][0]->shape(), runs, &fastest);
  }
  return fastest;
}

std::string ChoicesToText(const std::map<std::string, ConvolutionAlgorithm>& choices) {
  std::string text;
  for (const auto& [key, algorithm] : choices) {
    text += fmt::format("{}={}\n", key, AlgorithmName(algorithm));
  }
  return text;
}

std::map<std::string, ConvolutionAlgorithm> ChoicesFromText(const std::string& text) {
  std::map<std::string, ConvolutionAlgorithm> choices;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = line.find('=');
    const auto algorithm = equals == std::string::npos
                               ? std::nullopt
                               : AlgorithmNamed(std::string_view(line).substr(equals + 1));
    if (!algorithm) {
      throw ConfigError(fmt::format("the plan has a line that is not understood: \"{}\"", line),
                        "let all ranks run the same version of carafe");
    }
    choices[line.substr(0, equals)] = *algorithm;
  }
  return choices;
}

std::string ExplainPlan(Stream& stream, const Net<float>& net, int runs) {
  const std::vector<Fusion> fusions = FindFusions(net);
  std::string text = fmt::format("plan of net \"{}\" with {} thread{}; * is what is taken\n",
                                 net.name(), stream.threads(), stream.threads() == 1 ? "" : "s");
  for (size_t l = 0; l < net.layers().size(); ++l) {
    Layer<float>& layer = *net.layers()[l];
    text += fmt::format("{} ({})", layer.name(), layer.spec().param().type());
    if (std::ranges::none_of(net.propagate_down()[l], std::identity()) &&
        !net.bottoms()[l].empty()) {
      text += net.layer_needs_backward()[l] ? ", no gradient for its bottoms" : ", no backward";
    }
    for (const Fusion& fusion : fusions) {
      const auto name = [&](int i) { return net.layers()[static_cast<size_t>(i)]->name(); };
      if (fusion.producer == static_cast<int>(l)) text += ", with " + name(fusion.relu);
      if (fusion.relu == static_cast<int>(l)) text += ", done by " + name(fusion.producer);
    }
    text += "\n";
    auto* planned = dynamic_cast<Planned*>(&layer);
    if (planned == nullptr) {
      for (const Blob<float>* top : net.tops()[l]) {
        text +=
            fmt::format("    top {} {}\n", FormatName(top->data_format()), top->shape().ToString());
      }
      continue;
    }
    const std::vector<PlannedWay> ways = planned->Ways(stream, net.bottoms()[l][0]->shape(), runs);
    for (const PlannedWay& way : ways) text += LineOf(way, ways);
  }
  return text;
}

template std::vector<Fusion> FindFusions(const Net<float>& net);
template std::vector<Fusion> FindFusions(const Net<double>& net);

}  // namespace carafe
