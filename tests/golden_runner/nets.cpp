#include "nets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "carafe/train/options.h"

namespace carafe::golden {

const AlgorithmChoices& Algorithms() {
  static const AlgorithmChoices choices{.asked = RunOptionsFromEnvironment().algorithm};
  return choices;
}

NetState StateOf(const NetSpec& spec, Phase phase, int level,
                 const std::vector<std::string>& stages) {
  NetState state = spec.param.state();
  state.set_phase(phase);
  state.set_level(level);
  for (const std::string& stage : stages) state.add_stage(stage);
  return state;
}

Phase PhaseOf(const Case& c, int otherwise) {
  return c.Get("phase", otherwise) == 0 ? TRAIN : TEST;
}

bool IsCaffeType(const std::string& type) {
  static const std::set<std::string> types = {"AbsVal",
                                              "Accuracy",
                                              "ArgMax",
                                              "BNLL",
                                              "BatchNorm",
                                              "BatchReindex",
                                              "Bias",
                                              "Clip",
                                              "Concat",
                                              "ContrastiveLoss",
                                              "Convolution",
                                              "Crop",
                                              "Data",
                                              "Deconvolution",
                                              "Dropout",
                                              "DummyData",
                                              "ELU",
                                              "Eltwise",
                                              "Embed",
                                              "EuclideanLoss",
                                              "Exp",
                                              "Filter",
                                              "Flatten",
                                              "HDF5Data",
                                              "HDF5Output",
                                              "HingeLoss",
                                              "Im2col",
                                              "ImageData",
                                              "InfogainLoss",
                                              "InnerProduct",
                                              "Input",
                                              "LRN",
                                              "LSTM",
                                              "LSTMUnit",
                                              "Log",
                                              "MVN",
                                              "MemoryData",
                                              "PReLU",
                                              "Parameter",
                                              "Pooling",
                                              "Power",
                                              "Python",
                                              "RNN",
                                              "ReLU",
                                              "Reduction",
                                              "Reshape",
                                              "SPP",
                                              "Scale",
                                              "Sigmoid",
                                              "Silence",
                                              "Slice",
                                              "Softmax",
                                              "Split",
                                              "SoftmaxWithLoss",
                                              "Swish",
                                              "TanH",
                                              "Threshold",
                                              "Tile",
                                              "WindowData",
                                              "MultinomialLogisticLoss",
                                              "SigmoidCrossEntropyLoss"};
  return types.contains(type);
}

bool InLibrary(const std::string& type) { return LayerRegistry::Instance().Find(type) != nullptr; }

void RequireLayerTypes(const NetParameter& net) {
  std::set<std::string> missing;
  for (const LayerParameter& layer : net.layer()) {
    const std::string& type = layer.type();
    if (!InLibrary(type) && IsCaffeType(type)) missing.insert("layer type " + type);
  }
  if (!missing.empty())
    throw std::runtime_error(fmt::format("the library lacks {}", fmt::join(missing, ", ")));
}

Array ArrayOf(const Shape& shape, const std::vector<double>& values) {
  return Array::Of({shape.dims().begin(), shape.dims().end()}, values);
}

Array DataOf(Stream& stream, const Blob<float>& blob) {
  const std::vector<float> values = blob.DataToHost(stream);
  return ArrayOf(blob.shape(), {values.begin(), values.end()});
}

Array DiffOf(Stream& stream, const Blob<float>& blob) {
  const std::vector<float> values = blob.DiffToHost(stream);
  return ArrayOf(blob.shape(), {values.begin(), values.end()});
}

Blob<float>& BlobNamed(const Net<float>& net, const std::string& name) {
  Blob<float>* blob = net.FindBlob(name);
  if (blob == nullptr) throw std::runtime_error(fmt::format("the net has no blob {}", name));
  return *blob;
}

Blob<float>& ParamNamed(const Net<float>& net, const std::string& layer_and_index) {
  const size_t slash = layer_and_index.rfind('/');
  Layer<float>* layer = net.FindLayerNamed(layer_and_index.substr(0, slash));
  const size_t index = std::stoul(layer_and_index.substr(slash + 1));
  if (layer == nullptr || index >= layer->blobs().size()) {
    throw std::runtime_error(fmt::format("the net has no parameter {}", layer_and_index));
  }
  return *layer->blobs()[index];
}

void SetParams(Stream& stream, const Arrays& arrays, const Net<float>& net) {
  for (const auto& [key, array] : arrays.all()) {
    if (!key.starts_with("param/")) continue;
    Blob<float>& blob = ParamNamed(net, key.substr(6));
    if (!std::ranges::equal(blob.shape().dims(), array.shape)) {
      throw std::runtime_error(fmt::format("{} has shape {} in the net, and another in the case",
                                           key, blob.shape().ToString()));
    }
    blob.SetData(stream, array.Floats());
  }
}

std::vector<std::string> LayerNames(const Net<float>& net) {
  std::vector<std::string> names;
  for (const auto& layer : net.layers()) names.push_back(layer->name());
  return names;
}

std::vector<std::string> LayerTypes(const Net<float>& net) {
  std::vector<std::string> types;
  for (const auto& layer : net.layers()) types.push_back(layer->spec().param().type());
  return types;
}

std::vector<std::string> BlobNames(const Net<float>& net) {
  std::vector<std::string> names;
  for (const std::string& name : net.blob_names()) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace carafe::golden
