#include "carafe/train/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <exception>
#include <set>

#include "carafe/base/file.h"
#include "carafe/net/net.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/text_scan.h"
#include "carafe/solvers/learning_rate.h"
#include "carafe/solvers/snapshot_size.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/train/layer_schemes.h"
#include "carafe/train/placeholder_data.h"

namespace carafe {
namespace {

std::string Describe(const std::string& what, const Net<float>& net) {
  int64_t params = 0, activations = 0;
  for (const Param<float>& param : net.params()) params += param.blob->count();
  for (const auto& blob : net.blobs()) activations += blob->count();
  std::string outputs;
  for (const int id : net.output_ids()) {
    outputs += " " + net.blob_names()[static_cast<size_t>(id)];
  }
  return fmt::format("{}: {} layers, {} parameters, {:.1f} MB of blobs; outputs:{}", what,
                     net.layers().size(), params, static_cast<double>(activations) * 4 / 1e6,
                     outputs.empty() ? " none" : outputs);
}

// Builds the net, with placeholders for missing data, and adds its description to the report.
void Validate(const std::string& what, const NetSpec& spec, const NetState& state,
              const std::vector<int64_t>& data_shape, CheckReport* report,
              const SolverSpec* trained_by = nullptr) {
  std::vector<std::string> notes;
  const Net<float> net(WithPlaceholderData(spec, state, data_shape, &notes), state);
  SchemesOfFile(net);  // checks their names
  if (trained_by != nullptr) CheckSnapshotSize(*trained_by, net);
  report->lines.push_back(Describe(what, net));
  for (const std::string& note : notes) report->lines.push_back("  without data: " + note);
}

// A phase with stages, and how reports call it.
struct Variant {
  Phase phase;
  std::vector<std::string> stages;

  std::string Name() const {
    const std::string phase_name = phase == TRAIN ? "TRAIN" : "TEST";
    if (stages.empty()) return phase_name;
    return fmt::format("{} of stage {}", phase_name, fmt::join(stages, ", "));
  }
  NetState StateFor(const NetSpec& spec) const {
    NetState state;
    state.set_phase(phase);
    NetState own = spec.param.state();
    own.clear_phase();
    state.MergeFrom(own);
    for (const std::string& stage : stages) state.add_stage(stage);
    return state;
  }
};

std::vector<Variant> VariantsOf(const NetSpec& spec, const CheckSettings& settings) {
  std::set<std::string> named;
  for (const LayerParameter& layer : spec.param.layer()) {
    for (const auto* rules : {&layer.include(), &layer.exclude()}) {
      for (const NetStateRule& rule : *rules) {
        named.insert(rule.stage().begin(), rule.stage().end());
        named.insert(rule.not_stage().begin(), rule.not_stage().end());
      }
    }
  }
  std::vector<Variant> variants;
  for (const Phase phase : {TRAIN, TEST}) {
    if (settings.phase && *settings.phase != phase) continue;
    variants.push_back({phase, settings.stages});
    if (!settings.stages.empty()) continue;
    for (const std::string& stage : named) variants.push_back({phase, {stage}});
  }
  return variants;
}

// The text of an error without its remedy, which is for one who wants this phase.
std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

void CheckNet(const NetSpec& spec, const CheckSettings& settings, CheckReport* report) {
  const bool asked = settings.phase.has_value() || !settings.stages.empty();
  std::exception_ptr first;
  bool any = false;
  std::set<std::vector<std::string>> seen;  // names of layers: a stage may change nothing
  for (const Variant& variant : VariantsOf(spec, settings)) {
    const NetState state = variant.StateFor(spec);
    std::vector<std::string> layers = {variant.phase == TRAIN ? "TRAIN" : "TEST"};
    for (const LayerText& layer : FilterLayers(spec.Layers(), state)) {
      layers.push_back(fmt::format("{} {}", layer.param.name(), layer.place.Find("").line));
    }
    if (!asked && layers.size() == 1 && spec.param.layer_size() > 0) continue;
    if (!seen.insert(std::move(layers)).second) continue;
    try {
      Validate(variant.Name(), spec, state, settings.data_shape, report);
      any = true;
    } catch (const std::exception& error) {
      if (asked) throw;
      if (!first) first = std::current_exception();
      report->lines.push_back(
          fmt::format("{}: cannot be built: {}", variant.Name(), FirstLine(error.what())));
    }
  }
  if (!any && first) std::rethrow_exception(first);
}

// A label map has nothing but items (SSD).
bool LooksLikeLabelMap(const std::string& text) {
  bool items = false, others = false;
  VisitFields(text, nullptr, [&](const TextField& field) {
    if (field.depth > 0) return;
    (field.name == "item" && field.braces ? items : others) = true;
  });
  return items && !others;
}

void CheckLabelMap(const std::string& text, const std::string& path, CheckReport* report) {
  LabelMap map;
  ParseText(text, path, &map);
  std::set<int> labels;
  for (const LabelMapItem& item : map.item()) {
    if (!labels.insert(item.label()).second) {
      throw ConfigError({path}, fmt::format("label {} is given to two items", item.label()),
                        "give each item a label of its own");
    }
  }
  report->lines.push_back(fmt::format("{} labels", map.item_size()));
}

}  // namespace

bool LooksLikeNet(const std::string& text) {
  static const std::set<std::string> net_fields = {"layer",       "layers",    "input",
                                                   "input_shape", "input_dim", "force_backward"};
  int depth = 0;
  std::string word;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
      continue;
    }
    const bool ends_name =
        c == ':' || c == '{' || c == '<' || std::isspace(static_cast<unsigned char>(c));
    if (depth == 0 && ends_name && net_fields.contains(word)) return true;
    word.clear();
    if (c == '{' || c == '<') ++depth;
    if (c == '}' || c == '>') --depth;
  }
  return false;
}

CheckReport CheckFile(const std::string& path, const CheckSettings& settings) {
  const std::vector<int64_t>& data_shape = settings.data_shape;
  CheckReport report;
  const std::string text = ReadFile(path);
  if (LooksLikeNet(text)) {
    report.kind = "net";
    const NetSpec spec = ParseNetSpec(text, path);
    CheckNet(spec, settings, &report);
    return report;
  }
  if (LooksLikeLabelMap(text)) {
    report.kind = "label map";
    CheckLabelMap(text, path, &report);
    return report;
  }
  report.kind = "solver";
  const SolverSpec spec = ParseSolverSpec(text, path);
  LearningRate(spec.param, spec.place);
  const SolverNet train = TrainNetOf(spec);
  Validate("train net", train.spec, train.state, data_shape, &report, &spec);
  int number = 0;
  for (const SolverNet& test : TestNetsOf(spec)) {
    Validate(fmt::format("test net #{}", number++), test.spec, test.state, data_shape, &report);
  }
  report.lines.push_back(fmt::format("{} solver, lr_policy {}, {} iterations", spec.param.type(),
                                     spec.param.lr_policy(), spec.param.max_iter()));
  return report;
}

}  // namespace carafe
