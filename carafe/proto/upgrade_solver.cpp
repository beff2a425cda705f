// The solver's old enumeration of types, and what forks call otherwise.
#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/upgrade.h"

namespace carafe {
namespace {

const char* TypeName(SolverParameter::SolverType type) {
  switch (type) {
    case SolverParameter::SGD:
      return "SGD";
    case SolverParameter::NESTEROV:
      return "Nesterov";
    case SolverParameter::ADAGRAD:
      return "AdaGrad";
    case SolverParameter::RMSPROP:
      return "RMSProp";
    case SolverParameter::ADADELTA:
      return "AdaDelta";
    case SolverParameter::ADAM:
      return "Adam";
  }
  throw InternalError("a solver type without a name");
}

void CheckAlone(bool both, const Place& place, const char* fork, const char* ours) {
  if (!both) return;
  throw ConfigError(place.Find(fork), fmt::format("both {} and {} are given", fork, ours),
                    fmt::format("remove {}, which is a fork's name of the same", fork));
}

// Linear from warmup_start_lr to base_lr in the first warmup_iter iterations, as rampup is.
void ConvertWarmup(const ForkSolverParameter& fork, const Place& place, SolverParameter* solver) {
  if (!fork.has_warmup_iter() && !fork.has_warmup_start_lr()) return;
  CheckAlone(fork.has_warmup_iter() && solver->has_rampup_interval(), place, "warmup_iter",
             "rampup_interval");
  CheckAlone(fork.has_warmup_start_lr() && solver->has_rampup_lr(), place, "warmup_start_lr",
             "rampup_lr");
  if (fork.has_warmup_iter()) solver->set_rampup_interval(fork.warmup_iter());
  if (fork.has_warmup_start_lr()) solver->set_rampup_lr(fork.warmup_start_lr());
  LogInfo(
      "warmup_iter and warmup_start_lr of intel/caffe are read as rampup_interval: {} and "
      "rampup_lr: {}",
      solver->rampup_interval(), solver->rampup_lr());
}

// In Caffe-MPI's first version rank 0 waits so long for the gradients of the others.
void ConvertTimeout(const ForkSolverParameter& fork, const Place& place, SolverParameter* solver) {
  const double seconds =
      static_cast<double>(fork.timeout_sec()) + static_cast<double>(fork.timeout_nsec()) * 1e-9;
  if (seconds <= 0) return;
  CheckAlone(solver->has_exchange_timeout(), place, "timeout_sec", "exchange_timeout");
  if (!solver->has_exchange()) solver->set_exchange("server");
  if (solver->exchange() != "server") {
    LogInfo("timeout_sec of Caffe-MPI is left out: exchange \"{}\" waits for all ranks",
            solver->exchange());
    return;
  }
  solver->set_exchange_timeout(seconds);
  LogInfo("timeout_sec of Caffe-MPI is read as exchange: \"server\" with exchange_timeout: {}",
          seconds);
}

void ConvertReduce(const ForkSolverParameter& fork, const Place& place, SolverParameter* solver) {
  if (!fork.has_per_parameter_reduce()) return;
  CheckAlone(solver->has_overlap() && solver->overlap() != fork.per_parameter_reduce(), place,
             "per_parameter_reduce", "overlap");
  solver->set_overlap(fork.per_parameter_reduce());
  LogInfo("per_parameter_reduce of Caffe-MPI is read as overlap: {}", solver->overlap());
}

// Forks have LARS as a setting of SGD.
void ConvertLocalRate(const ForkSolverParameter& fork, const Place& place,
                      SolverParameter* solver) {
  if (!fork.larc() && !fork.local_lr_auto()) return;
  const char* field = fork.larc() ? "larc" : "local_lr_auto";
  CheckAlone(fork.larc() && fork.local_lr_auto(), place, "local_lr_auto", "larc");
  CheckAlone(solver->has_trust_coefficient(), place, field, "trust_coefficient");
  if (solver->type() != "SGD") {
    throw ConfigError(
        place.Find(field),
        fmt::format("{} is a setting of type \"SGD\", not of \"{}\"", field, solver->type()),
        fmt::format("remove {}, or use type: \"SGD\"", field));
  }
  if (fork.larc() && fork.larc_policy() != "scale" && fork.larc_policy() != "clip") {
    throw ConfigError(place.Find("larc_policy"),
                      fmt::format("unknown larc_policy \"{}\"", fork.larc_policy()),
                      "use \"scale\" or \"clip\"");
  }
  solver->set_type("LARS");
  solver->set_trust_coefficient(fork.larc() ? fork.larc_eta() : fork.local_gw_ratio());
  LogInfo("{} is read as type: \"LARS\" with trust_coefficient: {}, by the formula of {}", field,
          solver->trust_coefficient(), fork.larc() ? "NVCaffe" : "intel/caffe");
}

}  // namespace

bool UpgradeSolver(SolverParameter* solver, const Place& place) {
  const auto fork = ForkPart<ForkSolverParameter>(*solver);
  ConvertWarmup(fork, place, solver);
  ConvertTimeout(fork, place, solver);
  ConvertReduce(fork, place, solver);
  const bool old = solver->has_solver_type();
  if (old && solver->has_type()) {
    throw ConfigError(place.Find("solver_type"), "both `type` and the old `solver_type` are given",
                      "remove solver_type");
  }
  if (old) solver->set_type(TypeName(solver->solver_type()));
  solver->clear_solver_type();
  ConvertLocalRate(fork, place, solver);
  return old;
}

}  // namespace carafe
