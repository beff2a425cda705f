// HDF5 files of wrong names, types, shapes and values: the input is a recipe for datasets, so that
// the file itself is always sound and libhdf5 is not what is tested. Read as weights, as a state
// and as data.
#include <fuzzer/FuzzedDataProvider.h>

#include <fstream>

#include "carafe/data/hdf5_rows.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/solvers/training_state.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/hdf5_samples.h"

namespace carafe::fuzz {
namespace {

constexpr char kSolver[] = R"(
  type: "SGD" base_lr: 0.1 momentum: 0.9 lr_policy: "fixed" max_iter: 10 snapshot_prefix: "s"
  snapshot_format: HDF5
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

// Mostly what a reader expects, sometimes anything; small enough to be written out.
std::vector<int64_t> SmallShape(FuzzedDataProvider& recipe) {
  std::vector<int64_t> shape(recipe.ConsumeIntegralInRange<size_t>(0, 5));
  for (int64_t& extent : shape) extent = recipe.ConsumeIntegralInRange<int64_t>(0, 4);
  return shape;
}

std::vector<int64_t> AnyShape(FuzzedDataProvider& recipe) {
  std::vector<int64_t> shape(recipe.ConsumeIntegralInRange<size_t>(1, 5));
  for (int64_t& extent : shape) {
    extent = int64_t{1} << recipe.ConsumeIntegralInRange<int>(0, 12);
    if (recipe.ConsumeBool()) extent += recipe.ConsumeIntegralInRange<int64_t>(0, 3);
  }
  return shape;
}

void AddDataset(FuzzedDataProvider& recipe, const std::string& path, const std::string& name) {
  switch (recipe.ConsumeIntegralInRange<int>(0, 7)) {
    case 0:
      return AddHdf5Strings(path, name, SmallShape(recipe));
    case 1:
      return AddHdf5Text(path, name, recipe.ConsumeRandomLengthString(40));
    case 2:
      return AddHdf5Claim(path, name, AnyShape(recipe));
    default:
      break;
  }
  const std::vector<int64_t> shape = SmallShape(recipe);
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = recipe.ConsumeFloatingPoint<float>();
  constexpr Stored kStored[] = {Stored::kUint8,  Stored::kInt16BigEndian, Stored::kInt32,
                                Stored::kInt64,  Stored::kFloat16,        Stored::kFloat32,
                                Stored::kFloat64};
  AddHdf5Numbers(path, name, shape, values, recipe.PickValueInArray(kStored));
}

void ReadAsRows(const std::string& path) {
  const std::string list = (Folder() / "list.txt").string();
  std::ofstream(list) << path << '\n';
  const Hdf5Rows rows(list, {"data_rows", "label_rows"});
  Hdf5Reader<float> reader(rows);
  for (int64_t i = 0; i < std::min<int64_t>(rows.size(), 20); ++i)
    reader.Row(rows.ShuffledRow(/*key=*/1, /*epoch=*/0, i));
}

}  // namespace
}  // namespace carafe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = carafe::fuzz;
  const std::string path = (fuzz::Folder() / "input.solverstate.h5").string();
  std::filesystem::remove(path);
  carafe::Solver<float>& solver = fuzz::TheSolver();
  static const std::string weights = carafe::WriteSnapshot(solver, carafe::TrainingState{}).weights;
  FuzzedDataProvider recipe(data, size);
  for (const char* name : {"data/ip/0",
                           "data/ip/1",
                           "data/ip/2",
                           "diff/ip/0",
                           "iter",
                           "current_step",
                           "history/0",
                           "history/1",
                           "history/x",
                           "carafe/seed",
                           "carafe/samples_seen",
                           "carafe/plan",
                           "carafe/rate_policy/step",
                           "carafe/rate_policy/plateau/losses",
                           "carafe/training_plan",
                           "tensors/0/name",
                           "tensors/0/shape",
                           "tensors/0/first",
                           "tensors/0/data",
                           "data_rows",
                           "label_rows"}) {
    if (recipe.ConsumeBool()) fuzz::AddDataset(recipe, path, name);
  }
  if (recipe.ConsumeBool()) carafe::AddHdf5Text(path, "learned_net", weights);
  if (!std::filesystem::exists(path)) return 0;
  fuzz::Try([&] { carafe::LoadWeights(solver.stream(), path, solver.net()); });
  fuzz::Try([&] { carafe::Apply(carafe::ReadSnapshot(path, solver), /*rows=*/4, solver); });
  fuzz::Try([&] { fuzz::ReadAsRows(path); });
  return 0;
}
