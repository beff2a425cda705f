#include "carafe/train/check.h"

#include <fmt/format.h>

#include <cctype>
#include <set>

#include "carafe/base/file.h"
#include "carafe/net/net.h"
#include "carafe/solvers/learning_rate.h"
#include "carafe/solvers/snapshot_size.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/train/data_stand_in.h"

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

// Builds the net, with stand-ins for data that are not there, and tells what it is.
void Judge(const std::string& what, const NetSpec& spec, const NetState& state,
           const std::vector<int64_t>& data_shape, CheckReport* report,
           const SolverSpec* trained_by = nullptr) {
  std::vector<std::string> notes;
  const Net<float> net(WithStandInsForMissingData(spec, state, data_shape, &notes), state);
  if (trained_by != nullptr) CheckSnapshotSize(*trained_by, net);
  report->lines.push_back(Describe(what, net));
  for (const std::string& note : notes) report->lines.push_back("  without data: " + note);
}

NetState StateOf(Phase phase, const NetSpec& spec) {
  NetState state;
  state.set_phase(phase);
  NetState own = spec.param.state();
  own.clear_phase();
  state.MergeFrom(own);
  return state;
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

CheckReport CheckFile(const std::string& path, const std::vector<int64_t>& data_shape) {
  CheckReport report;
  const std::string text = ReadFile(path);
  if (LooksLikeNet(text)) {
    report.kind = "net";
    const NetSpec spec = ParseNetSpec(text, path);
    for (const Phase phase : {TRAIN, TEST}) {
      const NetState state = StateOf(phase, spec);
      if (FilterLayers(spec.Layers(), state).empty() && spec.param.layer_size() > 0) continue;
      Judge(phase == TRAIN ? "TRAIN" : "TEST", spec, state, data_shape, &report);
    }
    return report;
  }
  report.kind = "solver";
  const SolverSpec spec = ParseSolverSpec(text, path);
  LearningRate(spec.param, spec.place);
  const SolverNet train = TrainNetOf(spec);
  Judge("train net", train.spec, train.state, data_shape, &report, &spec);
  int number = 0;
  for (const SolverNet& test : TestNetsOf(spec)) {
    Judge(fmt::format("test net #{}", number++), test.spec, test.state, data_shape, &report);
  }
  report.lines.push_back(fmt::format("{} solver, lr_policy {}, {} iterations", spec.param.type(),
                                     spec.param.lr_policy(), spec.param.max_iter()));
  return report;
}

}  // namespace carafe
