#include "carafe/net/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "carafe/base/index.h"
#include "carafe/core/reorder_count.h"
#include "carafe/layers/planned.h"

namespace carafe {
namespace {

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

// Plans of older snapshots have the number of images in their keys: "3x3 8->8 9x9 n16 forward".
std::string WithoutImages(const std::string& key) {
  const size_t direction = key.rfind(' ');
  const size_t images = direction == std::string::npos ? direction : key.rfind(' ', direction - 1);
  if (images == std::string::npos || key[images + 1] != 'n') return key;
  return key.substr(0, images) + key.substr(direction);
}

// Counts the reorders of blobs while each layer runs.
class ReorderTrace final : public Trace {
 public:
  void Begin(std::string_view category, std::string_view name) override {
    open_.push_back({std::string(name), category == "backward", ReordersOfThisThread()});
  }
  void End() override {
    const Span& span = open_.back();
    counts_[span.layer][span.backward ? 1 : 0] += ReordersOfThisThread() - span.before;
    open_.pop_back();
  }
  std::string TextOf(const std::string& layer) const {
    std::string text;
    const auto found = counts_.find(layer);
    if (found == counts_.end()) return text;
    const auto& [forward, backward] = found->second;
    if (forward > 0) text += fmt::format(", {} reordered forward", forward);
    if (backward > 0) text += fmt::format(", {} reordered backward", backward);
    return text;
  }

 private:
  struct Span {
    std::string layer;
    bool backward;
    int64_t before;
  };
  std::vector<Span> open_;
  std::map<std::string, std::array<int64_t, 2>> counts_;
};

}  // namespace

std::map<std::string, ConvolutionAlgorithm> MeasureAlgorithms(
    Stream& stream, const Net<float>& net, int runs,
    std::map<std::string, ConvolutionAlgorithm> known) {
  for (size_t l = 0; l < net.layers().size(); ++l) {
    if (net.bottoms()[l].empty()) continue;
    net.layers()[l]->Measure(stream, net.bottoms()[l][0]->shape(), runs, &known);
  }
  return known;
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
      throw ConfigError(
          fmt::format("the plan has a line that is not understood: \"{}\"", line),
          "let all ranks run the same version of carafe; a snapshot's plan counts only with "
          "--algorithm=measure");
    }
    choices.emplace(WithoutImages(line.substr(0, equals)), *algorithm);
  }
  return choices;
}

std::string ExplainPlan(Stream& stream, Net<float>& net, int runs) {
  ReorderTrace reorders;
  RunContext run{.stream = stream, .trace = &reorders};
  net.Forward(run);
  if (net.phase() == TRAIN) net.Backward(run);
  std::string text = fmt::format("plan of net \"{}\" with {} thread{}; * is what is taken\n",
                                 net.name(), stream.threads(), stream.threads() == 1 ? "" : "s");
  const std::vector<int> fused_into = FusedInto(net.fusions(), net.graph().size());
  for (size_t l = 0; l < net.layers().size(); ++l) {
    Layer<float>& layer = *net.layers()[l];
    text += fmt::format("{} ({})", layer.name(), layer.spec().param().type());
    if (std::ranges::none_of(net.propagate_down()[l], std::identity()) &&
        !net.bottoms()[l].empty()) {
      text += net.layer_needs_backward()[l] ? ", no gradient for its bottoms" : ", no backward";
    }
    const auto name = [&](int i) { return At(net.layers(), i)->name(); };
    for (const Fusion& fusion : net.fusions()) {
      if (fusion.producer != static_cast<int>(l)) continue;
      for (const int follower : fusion.followers()) {
        if (follower >= 0) text += ", with " + name(follower);
      }
    }
    const int producer = fused_into[l];
    if (producer >= 0) text += ", done by " + name(producer);
    text += reorders.TextOf(layer.name()) + "\n";
    const std::vector<PlannedWay> ways =
        net.bottoms()[l].empty() ? std::vector<PlannedWay>()
                                 : layer.Ways(stream, net.bottoms()[l][0]->shape(), runs);
    if (ways.empty()) {
      for (const Blob<float>* top : net.tops()[l]) {
        text +=
            fmt::format("    top {} {}\n", FormatName(top->data_format()), top->shape().ToString());
      }
      continue;
    }
    for (const PlannedWay& way : ways) text += LineOf(way, ways);
  }
  for (const std::string& line : MemoryLines(net)) text += line + "\n";
  return text;
}

std::vector<std::string> MemoryLines(const Net<float>& net) {
  const auto mib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const MemoryPlan& plan = net.memory_plan();
  const size_t params = static_cast<size_t>(net.arena_count()) * sizeof(float);
  return {
      fmt::format("Memory planned: {:.1f} MiB = parameters {:.1f}, their gradients {:.1f}, inputs "
                  "and outputs {:.1f}, all other blobs {:.1f}",
                  mib(2 * params + plan.own_bytes + plan.pool_bytes), mib(params), mib(params),
                  mib(plan.own_bytes), mib(plan.pool_bytes)),
      fmt::format("Blobs: values {:.1f} MiB, gradients {:.1f}, kept by layers {:.1f}; {:.1f} are "
                  "alive at most",
                  mib(plan.data_bytes), mib(plan.diff_bytes), mib(plan.kept_bytes),
                  mib(plan.live_bytes))};
}

}  // namespace carafe
