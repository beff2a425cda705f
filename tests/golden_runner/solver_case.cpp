// Kind "solver": weights, rates and losses of a short training, its snapshot, and resuming from the
// original's snapshot and from our own.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "carafe/base/file.h"
#include "carafe/net/weights.h"
#include "carafe/solvers/snapshot.h"
#include "carafe/solvers/training_state.h"
#include "hdf5_file.h"
#include "nets.h"

namespace carafe::golden {
namespace {

namespace fs = std::filesystem;
using Named = std::map<std::string, Array>;

// The weights of every layer, shared ones under every sharer: "<layer>/<i>".
Named WeightsOf(Stream& stream, const Net<float>& net) {
  Named weights;
  for (const auto& layer : net.layers()) {
    for (size_t i = 0; i < layer->blobs().size(); ++i) {
      weights[fmt::format("{}/{}", layer->name(), i)] = DataOf(stream, *layer->blobs()[i]);
    }
  }
  return weights;
}

Array BlobArray(const BlobProto& proto, const std::string& file) {
  return ArrayOf(BlobProtoShape(proto), BlobProtoValues(proto, file, "blob"));
}

template <typename Message>
Message ReadMessage(const std::string& path) {
  Message message;
  if (!message.ParseFromString(ReadFile(path))) {
    throw std::runtime_error(path + ": cannot be parsed");
  }
  return message;
}

// Both files of a snapshot as arrays: model/..., state/....
Named SnapshotContent(const std::string& prefix) {
  Named content;
  const std::string model_path = prefix + ".caffemodel", state_path = prefix + ".solverstate";
  const auto model = ReadMessage<NetParameter>(model_path);
  std::vector<std::string> layers;
  for (const LayerParameter& layer : model.layer()) {
    layers.push_back(layer.name() + ":" + layer.type());
    for (int i = 0; i < layer.blobs_size(); ++i) {
      const BlobProto& blob = layer.blobs(i);
      const std::string tail = fmt::format("{}/{}", layer.name(), i);
      content["model/param/" + tail] = BlobArray(blob, model_path);
      if (blob.diff_size() > 0 || blob.double_diff_size() > 0) {
        content["model/diff/" + tail] = ArrayOf(BlobProtoShape(blob), BlobProtoDiffs(blob));
      }
    }
  }
  content["model/layers"] = Array::Of(layers);
  const auto state = ReadMessage<SolverState>(state_path);
  content["state/iter"] = Array::Of({}, {static_cast<double>(state.iter())});
  content["state/current_step"] = Array::Of({}, {static_cast<double>(state.current_step())});
  content["state/learned_net"] = Array::Of({state.learned_net()});
  for (int i = 0; i < state.history_size(); ++i) {
    content[fmt::format("state/history/{}", i)] = BlobArray(state.history(i), state_path);
  }
  return content;
}

// The same of a snapshot in HDF5; "model/layers" are the groups.
Named SnapshotContentHdf5(const std::string& prefix) {
  Named content;
  const Hdf5File model(prefix + ".caffemodel.h5"), state(prefix + ".solverstate.h5");
  content["model/layers"] = Array::Of(model.List("data"));
  for (const std::string& layer : model.List("data")) {
    for (const std::string& blob : model.List("data/" + layer)) {
      const std::string tail = fmt::format("{}/{}", layer, blob);
      content["model/param/" + tail] = model.Read("data/" + tail);
    }
  }
  content["state/iter"] = state.Read("iter");
  content["state/current_step"] = state.Read("current_step");
  content["state/learned_net"] = Array::Of({state.ReadText("learned_net")});
  for (const std::string& blob : state.List("history")) {
    content["state/history/" + blob] = state.Read("history/" + blob);
  }
  return content;
}

// RMSProp divides by the size of the gradient, so that a step has the sign of even the smallest
// one: a last bit that differs may turn a step around, once in 20 iterations of one case here
// (1.8e-2, with Winograd's points of either kind).
double LateWidth(const Case& c) {
  const bool turns = Case::Width() > 1 && c.name().starts_with("rmsprop");
  return (turns ? 2 : 1) * Case::Width();
}

class SolverCase {
 public:
  SolverCase(const Case& c, Report& report)
      : case_(c),
        report_(report),
        folder_("solvers/" + c.name()),
        arrays_(Arrays::Read(folder_ + "/expected.npz")),
        stream_(c.options.device(), c.options.threads),
        late_{LateWidth(c) * c.Get("late_rtol", 1e-3), Case::Width() * 1e-6} {}

  void Run() {
    const SolverSpec spec = LoadSolverSpec(folder_ + "/solver.prototxt");
    RequireLayerTypes(TrainNetOf(spec).spec.param);
    KeepReferenceSnapshot();
    Train(spec);
    if (snapshot() == 0) return;
    CompareSnapshot();
    Resume(spec, "resumed from our own snapshot", last_weights_, {0, 0});
    RestoreReferenceSnapshot();
    Named expected;
    const std::string prefix = fmt::format("resume{}/", iterations());
    for (const auto& [key, array] : arrays_.all()) {
      if (key.starts_with(prefix)) expected[key.substr(prefix.size())] = array;
    }
    Resume(spec, "resumed from the original's snapshot", expected, late_);
  }

 private:
  int iterations() const { return case_.entry.at("iters"); }
  int snapshot() const { return case_.Get("snapshot", 0); }
  std::string SnapshotPrefix() const { return fmt::format("{}/snap_iter_{}", folder_, snapshot()); }
  bool hdf5() const { return case_.Get("h5", false); }
  std::vector<std::string> Suffixes() const {
    const std::string end = hdf5() ? ".h5" : "";
    return {".caffemodel" + end, ".solverstate" + end};
  }
  Named Content() const {
    return hdf5() ? SnapshotContentHdf5(SnapshotPrefix()) : SnapshotContent(SnapshotPrefix());
  }

  std::unique_ptr<Solver<float>> MakeSolver(const SolverSpec& spec) {
    const bool share = std::getenv("CARAFE_SHARE_MEMORY") != nullptr;
    auto solver = std::make_unique<Solver<float>>(
        spec, stream_, SolverOptions{.algorithms = Algorithms(), .share_memory = share});
    for (const std::string& weights : spec.param.weights()) {
      LoadWeights(stream_, weights, solver->net());
    }
    return solver;
  }
  void Connect(Solver<float>& solver) {
    solver.Connect("allreduce", group_, {.bucket_bytes = size_t{1} << 16});
  }

  void KeepReferenceSnapshot() {
    if (snapshot() == 0) return;
    reference_ = Content();
    for (const std::string& suffix : Suffixes()) {
      fs::rename(SnapshotPrefix() + suffix, SnapshotPrefix() + suffix + ".ref");
    }
  }
  void RestoreReferenceSnapshot() {
    for (const std::string& suffix : Suffixes()) {
      fs::rename(SnapshotPrefix() + suffix + ".ref", SnapshotPrefix() + suffix);
    }
  }

  void Train(const SolverSpec& spec) {
    const auto solver = MakeSolver(spec);
    SetParams(stream_, arrays_, solver->net());
    Connect(*solver);
    const auto record = case_.entry.at("record").get<std::vector<int>>();
    Array rates = Array::Of({iterations() + 1}, {}), losses = Array::Of({iterations()}, {});
    for (int i = 0; i <= iterations(); ++i) {
      solver->Drain();
      rates.values.push_back(static_cast<float>(solver->PeekRate()));
      if (std::ranges::find(record, i) != record.end()) CompareWeights(*solver, i);
      if (i == snapshot() && i > 0) WriteSnapshot(*solver, Capture(*solver, GlobalBatch(*solver)));
      if (i == iterations()) break;
      solver->Step();
      losses.values.push_back(BlobNamed(solver->net(), "loss").DataToHost(stream_).at(0));
    }
    report_.Compare("loss", arrays_.At("loss"), losses, late_);
    if (const Array* lr = arrays_.Find("lr")) report_.Compare("lr", *lr, rates, {1e-5, 1e-6});
    last_weights_ = WeightsOf(stream_, solver->net());
    CompareTest(*solver);
  }

  void CompareWeights(Solver<float>& solver, int iteration) {
    const Tolerance tolerance = iteration <= 2 ? case_.tolerance() : late_;
    for (const auto& [name, got] : WeightsOf(stream_, solver.net())) {
      const std::string key = fmt::format("w{}/{}", iteration, name);
      report_.Compare(key, arrays_.At(key), got, tolerance);
    }
  }

  void CompareTest(Solver<float>& solver) {
    const auto outputs = case_.Get("test_net", std::vector<std::string>());
    if (outputs.empty()) return;
    solver.TestForward(/*test_net=*/0, /*batch=*/0, /*stride=*/1);
    for (const std::string& output : outputs) {
      report_.Compare("test/" + output, arrays_.At("test/" + output),
                      DataOf(stream_, BlobNamed(*solver.test_nets()[0], output)), late_);
    }
  }

  void CompareSnapshot() {
    const Named ours = Content();
    for (const auto& [key, array] : reference_) {
      const auto found = ours.find(key);
      report_.Check(found != ours.end(), fmt::format("snapshot: {} is missing", key));
      if (found != ours.end()) report_.Compare("snapshot " + key, array, found->second, late_);
    }
    for (const auto& [key, array] : ours) {
      report_.Check(reference_.contains(key), fmt::format("snapshot: {} is superfluous", key));
    }
  }

  void Resume(const SolverSpec& spec, const std::string& what, const Named& expected,
              const Tolerance& tolerance) {
    const auto solver = MakeSolver(spec);
    Apply(ReadSnapshot(SnapshotPrefix() + Suffixes()[1], *solver), GlobalBatch(*solver), *solver);
    Connect(*solver);
    report_.Check(solver->iteration() == snapshot(),
                  fmt::format("{}: iteration is {}", what, solver->iteration()));
    for (int i = snapshot(); i < iterations(); ++i) solver->Step();
    solver->Drain();
    const Named weights = WeightsOf(stream_, solver->net());
    report_.Check(weights.size() == expected.size(), what + ": other parameters");
    for (const auto& [name, array] : expected) {
      report_.Compare(fmt::format("{}: {}", what, name), array, weights.at(name), tolerance);
    }
  }

  const Case& case_;
  Report& report_;
  const std::string folder_;
  const Arrays arrays_;
  Stream stream_;
  Group group_;
  const Tolerance late_;  // after the first two iterations
  Named reference_, last_weights_;
};

}  // namespace

void RunSolver(const Case& c, Report& report) { SolverCase(c, report).Run(); }

}  // namespace carafe::golden
