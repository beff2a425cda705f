// A .solverstate: unchanged, and with the path of weights that exist put in, so that what follows
// the weights is reached too.
#include "carafe/comm/group.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/solvers/training_state.h"
#include "tests/fuzz/fuzz.h"

namespace carafe::fuzz {
namespace {

constexpr char kSolver[] = R"(
  type: "Adam" base_lr: 0.1 momentum: 0.9 lr_policy: "multistep" stepvalue: 3 stepvalue: 6 gamma: 0.5
  max_iter: 10 snapshot_prefix: "s"
  train_net_param {
    layer { name: "data" type: "DummyData" top: "data" top: "label"
            dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } } }
    layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
    layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" } })";

Solver<float>& TheSolver() {
  static Stream stream;
  static Solver<float>* solver =
      new Solver<float>(ParseSolverSpec(kSolver, "solver.prototxt"), stream, SolverOptions{});
  return *solver;
}

const std::string& Weights() {
  static const std::string path = WriteSnapshot(TheSolver(), TrainingState{}).weights;
  return path;
}

void Resume(const std::string& path) {
  Apply(ReadSnapshot(path, TheSolver()), /*rows=*/4, TheSolver());
}

}  // namespace
}  // namespace carafe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = carafe::fuzz;
  fuzz::Folder();
  const std::string weights = fuzz::Weights();
  const std::string path = fuzz::WriteInput("input.solverstate", data, size);
  fuzz::Try([&] { fuzz::Resume(path); });
  carafe::SolverState state;
  if (!state.ParseFromArray(data, static_cast<int>(size))) return 0;
  state.set_learned_net(weights);
  const std::string whole = state.SerializeAsString();
  fuzz::WriteInput("input.solverstate", reinterpret_cast<const uint8_t*>(whole.data()),
                   whole.size());
  fuzz::Try([&] { fuzz::Resume(path); });
  return 0;
}
