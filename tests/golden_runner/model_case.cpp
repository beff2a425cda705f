// Kinds "model" (a weights file loaded into a net: parameters, outputs, and the file written again)
// and "mean" (a mean file).
#include <fmt/format.h>

#include "carafe/base/file.h"
#include "carafe/net/weights.h"
#include "carafe/net/weights_hdf5.h"
#include "hdf5_file.h"
#include "nets.h"
#include "tools.h"

namespace carafe::golden {
namespace {

// Layers and parameters as the net would write them must be those of the file.
void CompareSaved(const NetParameter& saved, const NetParameter& file, const std::string& path,
                  Report& report) {
  std::vector<std::string> expected, got;
  for (const LayerParameter& layer : file.layer())
    expected.push_back(layer.name() + ":" + layer.type());
  for (const LayerParameter& layer : saved.layer())
    got.push_back(layer.name() + ":" + layer.type());
  report.Compare("saved layers", Array::Of(expected), Array::Of(got), {});
  if (expected != got) return;
  for (int l = 0; l < file.layer_size(); ++l) {
    const LayerParameter &old_layer = file.layer(l), &new_layer = saved.layer(l);
    report.Check(old_layer.blobs_size() == new_layer.blobs_size(),
                 fmt::format("saved layer {}: other number of blobs", old_layer.name()));
    for (int i = 0; i < std::min(old_layer.blobs_size(), new_layer.blobs_size()); ++i) {
      const std::string what = fmt::format("saved param/{}/{}", old_layer.name(), i);
      const auto array = [&](const BlobProto& blob) {
        return ArrayOf(BlobProtoShape(blob), BlobProtoValues(blob, path, what));
      };
      report.Compare(what, array(old_layer.blobs(i)), array(new_layer.blobs(i)), {0, 0});
    }
  }
}

// Likewise for HDF5: the groups, and the datasets in them.
void CompareSavedHdf5(Stream& stream, const Net<float>& net, const std::string& path,
                      Report& report) {
  const std::string saved_path = path + ".saved";
  WriteWeightsHdf5(stream, net, /*with_diff=*/false, saved_path);
  const Hdf5File file(path), saved(saved_path);
  const std::vector<std::string> layers = file.List("data");
  report.Compare("saved layers", Array::Of(layers), Array::Of(saved.List("data")), {});
  if (layers != saved.List("data")) return;
  for (const std::string& layer : layers) {
    const std::vector<std::string> blobs = file.List("data/" + layer);
    report.Check(blobs == saved.List("data/" + layer),
                 fmt::format("saved layer {}: other number of blobs", layer));
    for (const std::string& blob : blobs) {
      const std::string name = fmt::format("data/{}/{}", layer, blob);
      report.Compare("saved " + name, file.Read(name), saved.Read(name), {0, 0});
    }
  }
}

}  // namespace

void RunModel(const Case& c, Report& report) {
  const std::string folder = c.Text("dir") + "/";
  const Arrays arrays = Arrays::Read(folder + c.name() + ".npz");
  Stream stream(c.options.device(), c.options.threads);
  const NetSpec spec = LoadNetSpec(folder + c.Text("net"));
  RequireLayerTypes(spec.param);
  Net<float> net(spec, StateOf(spec, PhaseOf(c, 1)), Algorithms());
  net.Initialise(stream, /*seed=*/1);
  const std::string weights = folder + c.Text("weights");
  LoadWeights(stream, weights, net);
  for (const auto& [key, array] : arrays.all()) {
    if (key.starts_with("param/")) {
      report.Compare(key, array, DataOf(stream, ParamNamed(net, key.substr(6))), {0, 0});
    } else if (key.starts_with("in/")) {
      BlobNamed(net, key.substr(3)).SetData(stream, array.Floats());
    }
  }
  RunContext run{.stream = stream};
  net.Forward(run);
  for (const auto& [key, array] : arrays.all()) {
    if (!key.starts_with("out/")) continue;
    report.Compare(key, array, DataOf(stream, BlobNamed(net, key.substr(4))), c.tolerance());
  }
  if (c.Get("save", false) && c.Get("load_hdf5", false)) {
    CompareSavedHdf5(stream, net, weights, report);
  } else if (c.Get("save", false)) {
    CompareSaved(ToNetParameter(stream, net, /*with_diff=*/false), ReadNetBinary(weights), weights,
                 report);
  }
}

void RunMean(const Case& c, Report& report) {
  const auto compare = [&](const std::string& path) {
    BlobProto proto;
    report.Check(proto.ParseFromString(ReadFile(path)), path + " cannot be parsed");
    report.Compare(path, Arrays::Read(c.Text("npz")).At("mean"),
                   ArrayOf(BlobProtoShape(proto), BlobProtoValues(proto, path, "mean")),
                   c.tolerance());
  };
  compare(c.Text("file"));
  if (!c.Has("cmd")) return;
  std::vector<std::string> args = c.entry.at("cmd");
  args.push_back("mean.tmp");
  RunTool(c, "compute_image_mean", args);
  compare("mean.tmp");
}

}  // namespace carafe::golden
