#include "carafe/solvers/solver_spec.h"

#include <fmt/format.h>

#include <filesystem>

#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/base/suggest.h"
#include "carafe/proto/finite.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/upgrade.h"
#include "carafe/solvers/update_rule.h"

namespace carafe {
namespace {

void CheckRule(const SolverSpec& spec) {
  const SolverParameter& param = spec.param;
  const RuleEntry* rule = RuleRegistry::Instance().Find(param.type());
  if (rule == nullptr) {
    throw ConfigError(spec.place.Find("type"),
                      fmt::format("unknown solver type \"{}\"", param.type()),
                      DidYouMean(param.type(), RuleRegistry::Instance().Names()));
  }
  if (rule->info.refuses == "momentum" && param.momentum() != 0) {
    throw ConfigError(
        spec.place.Find("momentum"),
        fmt::format("{} has no momentum, but momentum is {}", param.type(), param.momentum()),
        "remove the line, or use another solver type");
  }
  if (rule->info.refuses_l1 && param.weight_decay() != 0 && param.regularization_type() == "L1") {
    throw ConfigError(spec.place.Find("regularization_type"),
                      fmt::format("{} knows weight decay as L2 only", param.type()),
                      "use regularization_type: \"L2\", or leave the line away");
  }
  if (!(param.trust_coefficient() > 0)) {
    throw ConfigError(spec.place.Find("trust_coefficient"),
                      fmt::format("trust_coefficient is {}", param.trust_coefficient()),
                      "give a value above 0, e.g. 0.001");
  }
  if (param.type() == "RMSProp" && (param.rms_decay() < 0 || param.rms_decay() >= 1)) {
    throw ConfigError(spec.place.Find("rms_decay"),
                      fmt::format("rms_decay is {}", param.rms_decay()),
                      "give a value from 0 to below 1, e.g. 0.99");
  }
}

void CheckNumbers(const SolverSpec& spec) {
  const SolverParameter& param = spec.param;
  const auto check = [&](bool condition, const char* field, const std::string& what,
                         const char* fix) {
    if (!condition) throw ConfigError(spec.place.Find(field), what, fix);
  };
  const std::string& kind = param.regularization_type();
  check(param.weight_decay() == 0 || kind == "L1" || kind == "L2", "regularization_type",
        fmt::format("unknown regularization_type \"{}\"", kind), "use \"L1\" or \"L2\"");
  check(param.iter_size() > 0, "iter_size", fmt::format("iter_size is {}", param.iter_size()),
        "give at least 1");
  check(param.average_loss() > 0, "average_loss",
        fmt::format("average_loss is {}", param.average_loss()), "give at least 1");
  check(param.max_iter() >= 0, "max_iter", fmt::format("max_iter is {}", param.max_iter()),
        "give the number of iterations");
  check(param.snapshot() >= 0, "snapshot", fmt::format("snapshot is {}", param.snapshot()),
        "give 0 or the iterations between two snapshots");
  check(param.display() >= 0, "display", fmt::format("display is {}", param.display()),
        "give 0 or the iterations between two log lines");
  check(param.test_interval() >= 0, "test_interval",
        fmt::format("test_interval is {}", param.test_interval()),
        "give 0 or the iterations between two tests");
}

// SSD's tests of detectors (train/detection_score.h).
void CheckEvaluation(const SolverSpec& spec) {
  const auto fork = ForkPart<ForkSolverParameter>(spec.param);
  if (fork.eval_type() != "classification" && fork.eval_type() != "detection") {
    throw ConfigError(spec.place.Find("eval_type"),
                      fmt::format("eval_type \"{}\" is not built here", fork.eval_type()),
                      "use \"detection\" or \"classification\"");
  }
  const std::string& version = fork.ap_version();
  if (version != "11point" && version != "MaxIntegral" && version != "Integral") {
    throw ConfigError(spec.place.Find("ap_version"),
                      fmt::format("unknown ap_version \"{}\"", version),
                      "use \"11point\" (VOC 2007), \"MaxIntegral\" (VOC 2012) or \"Integral\"");
  }
}

void SetDefaultPrefix(SolverSpec* spec) {
  if (spec->param.has_snapshot_prefix() && !spec->param.snapshot_prefix().empty()) {
    std::error_code ignored;
    const std::filesystem::path prefix = spec->param.snapshot_prefix();
    if (!spec->path.empty() && std::filesystem::is_directory(prefix, ignored)) {
      spec->param.set_snapshot_prefix((prefix / std::filesystem::path(spec->path).stem()).string());
    }
    return;
  }
  std::filesystem::path path = spec->path.empty() ? "solver" : spec->path;
  spec->param.set_snapshot_prefix(path.replace_extension().string());
}

// Upgraded as a file would be.
NetSpec InlineNet(const SolverSpec& solver, const NetParameter& param, const Place& place) {
  NetSpec net{param, place};
  Upgrade(&net, solver.path.empty() ? "solver" : solver.path);
  return net;
}

// Phase, then what the net's file says, then the solver's wish, then the command line.
NetState MergedState(Phase phase, const NetSpec& net, const NetState* wish, int level,
                     const std::vector<std::string>& stages) {
  NetState state;
  state.set_phase(phase);
  state.MergeFrom(net.param.state());
  if (wish != nullptr) state.MergeFrom(*wish);
  if (level != 0) state.set_level(level);
  for (const std::string& stage : stages) state.add_stage(stage);
  return state;
}

}  // namespace

SolverSpec ParseSolverSpec(const std::string& text, const std::string& file) {
  SolverSpec spec;
  spec.path = file;
  spec.place = ParseText(text, file, &spec.param);
  if (UpgradeSolver(&spec.param, spec.place)) {
    LogInfo("{}: solver_type is the old form of type: read as type: \"{}\"", file,
            spec.param.type());
  }
  SetDefaultPrefix(&spec);
  CheckFinite(spec.param, spec.place, Infinite::kRefused);
  CheckRule(spec);
  CheckNumbers(spec);
  CheckEvaluation(spec);
  return spec;
}

SolverSpec LoadSolverSpec(const std::string& path) { return ParseSolverSpec(ReadFile(path), path); }

SolverNet TrainNetOf(const SolverSpec& spec, int level, const std::vector<std::string>& stages) {
  const SolverParameter& param = spec.param;
  const int given =
      param.has_net() + param.has_net_param() + param.has_train_net() + param.has_train_net_param();
  if (given != 1) {
    throw ConfigError(spec.place.Find(given == 0 ? "" : "train_net"),
                      given == 0 ? "the solver names no net" : "the solver names several nets",
                      "give exactly one of net, net_param, train_net, train_net_param");
  }
  SolverNet net;
  if (param.has_net()) net.spec = LoadNetSpec(param.net());
  if (param.has_train_net()) net.spec = LoadNetSpec(param.train_net());
  if (param.has_net_param()) {
    net.spec = InlineNet(spec, param.net_param(), spec.place.Child("net_param"));
  }
  if (param.has_train_net_param()) {
    net.spec = InlineNet(spec, param.train_net_param(), spec.place.Child("train_net_param"));
  }
  const NetState* wish = param.has_train_state() ? &param.train_state() : nullptr;
  net.state = MergedState(TRAIN, net.spec, wish, level, stages);
  return net;
}

std::vector<SolverNet> TestNetsOf(const SolverSpec& spec, int level,
                                  const std::vector<std::string>& stages) {
  const SolverParameter& param = spec.param;
  const int own = param.test_net_param_size() + param.test_net_size();
  const bool shared_net = param.has_net() || param.has_net_param();
  const int count = param.test_iter_size();
  const auto check = [&](bool condition, const char* field, const std::string& what,
                         const char* fix) {
    if (!condition) throw ConfigError(spec.place.Find(field), what, fix);
  };
  check(shared_net ? count >= own : count == own, "test_iter",
        fmt::format("test_iter is given {} times for {} test nets", count, own),
        "give one test_iter per test net");
  check(
      param.test_state_size() == 0 || param.test_state_size() == count, "test_state",
      fmt::format("test_state is given {} times for {} test nets", param.test_state_size(), count),
      "give none, or one per test net");
  check(count == 0 || param.test_interval() > 0, "test_interval",
        "there are test nets, but test_interval is 0 or missing", "add e.g. test_interval: 500");
  std::vector<SolverNet> nets;
  for (int i = 0; i < count; ++i) {
    SolverNet net;
    if (i < param.test_net_param_size()) {
      net.spec = InlineNet(spec, param.test_net_param(i), spec.place.Child("test_net_param", i));
    } else if (i < own) {
      net.spec = LoadNetSpec(param.test_net(i - param.test_net_param_size()));
    } else if (param.has_net()) {
      net.spec = LoadNetSpec(param.net());
    } else {
      net.spec = InlineNet(spec, param.net_param(), spec.place.Child("net_param"));
    }
    const NetState* wish = param.test_state_size() > 0 ? &param.test_state(i) : nullptr;
    net.state = MergedState(TEST, net.spec, wish, level, stages);
    nets.push_back(std::move(net));
  }
  return nets;
}

}  // namespace carafe
