// The solver's old enumeration of types.
#include "carafe/base/error.h"
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

}  // namespace

bool UpgradeSolver(SolverParameter* solver, const Place& place) {
  if (!solver->has_solver_type()) return false;
  if (solver->has_type()) {
    throw ConfigError(place.Find("solver_type"), "both `type` and the old `solver_type` are given",
                      "remove solver_type");
  }
  solver->set_type(TypeName(solver->solver_type()));
  solver->clear_solver_type();
  return true;
}

}  // namespace carafe
