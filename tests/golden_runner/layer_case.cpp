// Kind "layer": a net with given inputs and parameters, its outputs and gradients, over one or
// several iterations.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "carafe/layers/memory_data.h"
#include "hdf5_file.h"
#include "nets.h"

namespace carafe::golden {
namespace {

using Strings = std::vector<std::string>;

// Keys such as it1/out/x are grouped by what they are for.
bool IsResult(std::string key) {
  if (key.starts_with("it") && key.size() > 2 && std::isdigit(key[2]) != 0) {
    key = key.substr(key.find('/') + 1);
  }
  const std::string head = key.substr(0, key.find('/'));
  return head == "out" || head == "bottom_diff" || head == "param_diff" || head == "param_after";
}

// The tail of every key that starts with `prefix`.
std::vector<std::pair<std::string, const Array*>> Under(const Arrays& arrays,
                                                        const std::string& prefix) {
  std::vector<std::pair<std::string, const Array*>> found;
  for (const auto& [key, array] : arrays.all()) {
    if (key.starts_with(prefix)) found.emplace_back(key.substr(prefix.size()), &array);
  }
  return found;
}

class LayerCase {
 public:
  LayerCase(const Case& c, Report& report)
      : case_(c),
        report_(report),
        base_(c.Get<std::string>("dir", "layers") + "/" + c.name()),
        arrays_(Arrays::Read(base_ + ".npz")),
        stream_(c.options.device(), c.options.threads) {}

  void Run() {
    const NetSpec spec = LoadNetSpec(base_ + ".prototxt");
    RequireLayerTypes(spec.param);
    if (case_.Has("h5out")) std::filesystem::remove(case_.Text("h5out"));
    {
      Net<float> net(
          spec,
          StateOf(spec, PhaseOf(case_, 0), case_.Get("level", 0), case_.Get("stages", Strings())),
          Algorithms());
      net.Initialise(stream_, /*seed=*/1);
      if (std::getenv("CARAFE_SHARE_MEMORY") != nullptr) ShareMemory(net);
      SetParams(stream_, arrays_, net);
      if (arrays_.Find("mem/data") != nullptr) FillMemory(net, "");
      const int iterations = case_.Get("iters", 1);
      for (int i = 0; i < iterations; ++i) {
        Iterate(net, i, iterations > 1 ? fmt::format("it{}/", i) : "");
      }
      CompareText("meta/layer_names", LayerNames(net));
      CompareText("meta/layer_types", LayerTypes(net));
      CompareText("meta/blob_names", BlobNames(net));
    }
    if (case_.Has("h5out")) CompareOutputFile();
    for (const auto& [key, array] : arrays_.all()) {
      report_.Check(!IsResult(key) || done_.contains(key), key + ": was not computed");
    }
  }

 private:
  // All that the case looks at is kept; what is dead is poisoned.
  void ShareMemory(Net<float>& net) {
    Strings keep = case_.Get("outs", Strings());
    for (const std::string& name : case_.Get("bottom_diffs", Strings())) keep.push_back(name);
    for (const auto& [key, array] : arrays_.all()) {
      if (key.find("top_diff/") == std::string::npos) continue;
      keep.push_back(key.substr(key.find("top_diff/") + 9));
    }
    const auto pool = std::make_shared<MemoryPool>();
    pool->set_poison(true);
    net.ShareMemory(
        case_.Get("backward", false) ? MemorySharing::kTraining : MemorySharing::kForward, pool,
        keep);
  }

  void Iterate(Net<float>& net, int iteration, const std::string& prefix) {
    RunContext run{.stream = stream_};
    run.pass = {.seed = 1, .index = iteration};
    run.replica = {.index = case_.Get("solver_rank", 0), .count = case_.Get("solver_count", 1)};
    SetInputs(net, run, prefix);
    net.Forward(run);
    for (const std::string& out : case_.Get("outs", Strings())) {
      Compare(prefix + "out/" + out, DataOf(stream_, BlobNamed(net, out)));
    }
    for (const std::string& layer : case_.Get("param_after", Strings())) {
      for (const auto& [tail, array] : Under(arrays_, prefix + "param_after/" + layer + "/")) {
        Compare(prefix + "param_after/" + layer + "/" + tail,
                DataOf(stream_, ParamNamed(net, layer + "/" + tail)));
      }
    }
    if (!case_.Get("backward", false)) return;
    if (iteration == 0 || !case_.Get("accumulate", false)) net.ClearParamDiffs(stream_);
    for (const auto& [name, array] : Under(arrays_, prefix + "top_diff/")) {
      BlobNamed(net, name).SetDiff(stream_, array->Floats());
    }
    net.Backward(run);
    for (const std::string& name : case_.Get("bottom_diffs", Strings())) {
      Compare(prefix + "bottom_diff/" + name, DiffOf(stream_, BlobNamed(net, name)));
    }
    for (const std::string& layer : case_.Get("param_diffs", Strings())) {
      for (const auto& [tail, array] : Under(arrays_, prefix + "param_diff/" + layer + "/")) {
        Compare(prefix + "param_diff/" + layer + "/" + tail,
                DiffOf(stream_, ParamNamed(net, layer + "/" + tail)));
      }
    }
  }

  void FillMemory(Net<float>& net, const std::string& prefix) {
    for (const auto& layer : net.layers()) {
      auto* memory = dynamic_cast<MemoryData<float>*>(layer.get());
      if (memory == nullptr) continue;
      const Array &data = arrays_.At(prefix + "mem/data"),
                  &labels = arrays_.At(prefix + "mem/label");
      memory_data_ = data.Floats();
      memory_labels_ = labels.Floats();
      memory->Reset(memory_data_.data(), memory_labels_.data(), data.shape.at(0));
    }
  }

  void SetInputs(Net<float>& net, RunContext& run, const std::string& prefix) {
    if (!prefix.empty() && arrays_.Find(prefix + "mem/data") != nullptr) FillMemory(net, prefix);
    bool changed = false;
    for (const auto& [name, array] : Under(arrays_, prefix + "in/")) {
      Blob<float>& blob = BlobNamed(net, name);
      if (std::ranges::equal(blob.shape().dims(), array->shape)) continue;
      blob.Reshape(Shape(array->shape));
      changed = true;
    }
    if (changed) net.Reshape(run);
    for (const auto& [name, array] : Under(arrays_, prefix + "in/")) {
      BlobNamed(net, name).SetData(stream_, array->Floats());
    }
  }

  void Compare(const std::string& key, const Array& got) {
    const Array* expected = arrays_.Find(key);
    if (expected == nullptr) return;
    report_.Compare(key, *expected, got, case_.tolerance());
    done_.insert(key);
  }

  void CompareText(const std::string& key, const Strings& got) {
    if (const Array* expected = arrays_.Find(key)) {
      report_.Compare(key, *expected, Array::Of(got), {});
    }
  }

  // The content of the file that an HDF5Output layer wrote.
  void CompareOutputFile() {
    const Hdf5File file(case_.Text("h5out"));
    for (const auto& [name, array] : Under(arrays_, "h5out/")) {
      report_.Compare("h5out/" + name, *array, file.Read(name), case_.tolerance());
    }
  }

  const Case& case_;
  Report& report_;
  const std::string base_;
  const Arrays arrays_;
  Stream stream_;
  std::vector<float> memory_data_, memory_labels_;  // MemoryData uses them where they are
  std::set<std::string> done_;
};

}  // namespace

void RunLayer(const Case& c, Report& report) { LayerCase(c, report).Run(); }

}  // namespace carafe::golden
