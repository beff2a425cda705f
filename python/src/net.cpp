#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <fmt/format.h>

#include <filesystem>
#include <limits>
#include <optional>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/layers/memory_data.h"
#include "carafe/net/weights.h"
#include "carafe/net/weights_hdf5.h"
#include "carafe/train/options.h"
#include "carafe/train/summary.h"
#include "python/src/collected.h"
#include "python/src/layer.h"
#include "python/src/net.h"
#include "python/src/session.h"

namespace py = pybind11;

namespace carafe::python {

NetObject::NetObject(std::shared_ptr<Net<float>> net, std::shared_ptr<Stream> stream, uint64_t seed,
                     const Replica& replica, std::shared_ptr<Turn> turn)
    : net_(std::move(net)), stream_(std::move(stream)), replica_(replica), turn_(std::move(turn)) {
  pass_.seed = seed;
}

NetObject::~NetObject() { net_->set_layer_events(nullptr); }

RunContext NetObject::Context() const {
  return {.stream = *stream_, .pass = pass_, .replica = replica_};
}

void NetObject::CheckRange(int first, int last) const {
  const int layers = static_cast<int>(net_->layers().size());
  for (const int layer : {first, last}) {
    if (layer >= 0 && layer < layers) continue;
    throw py::index_error(fmt::format("layer {} of a net with {} layers", layer, layers));
  }
}

double NetObject::Forward(int first, int last) {
  CheckRange(first, last);
  const py::gil_scoped_release unlocked;
  const std::lock_guard turn(*turn_);
  if (first == 0) pass_.index = next_pass_++;
  RunContext run = Context();
  const double loss = net_->ForwardFromTo(run, first, last);
  if (first <= last) RememberShapes(static_cast<size_t>(first), static_cast<size_t>(last));
  return loss;
}

void NetObject::RememberShapes(size_t first, size_t last) {
  ran_with_.resize(net_->layers().size());
  for (size_t l = first; l <= last; ++l) {
    size_t next = 0;
    ran_with_[l].resize(net_->bottoms()[l].size() + net_->tops()[l].size());
    for (const auto* side : {&net_->bottoms()[l], &net_->tops()[l]}) {
      for (const Blob<float>* blob : *side) {
        Shape& shape = ran_with_[l][next++];
        if (!(shape == blob->shape())) shape = blob->shape();
      }
    }
  }
}

namespace {

struct Silence {
  explicit Silence(bool& on) : on(on) { on = true; }
  ~Silence() { on = false; }
  bool& on;
};

}  // namespace

// A layer's backward pass uses what its forward pass left (columns, masks, formats): with other
// shapes since, it would read beyond the end of that. One that has not run at all does so now.
void NetObject::PrepareBackward(RunContext& run, size_t first, size_t last) {
  ran_with_.resize(net_->layers().size());
  for (size_t l = first; l <= last; ++l) {
    const auto& bottoms = net_->bottoms()[l];
    if (bottoms.empty()) continue;
    if (ran_with_[l].empty()) {
      const Silence silence(silent_);  // no pass that hooks are told of
      net_->ForwardFromTo(run, static_cast<int>(l), static_cast<int>(l));
      RememberShapes(l, l);
    }
    size_t next = 0;
    for (const auto* side : {&bottoms, &net_->tops()[l]}) {
      for (const Blob<float>* blob : *side) {
        const Shape& shape = ran_with_[l][next++];
        if (shape == blob->shape()) continue;
        throw ConfigError(
            fmt::format("backward: a blob of layer \"{}\" has the shape {}, but had {} in the last "
                        "forward pass",
                        net_->layers()[l]->name(), blob->shape().ToString(), shape.ToString()),
            "call forward() after reshape(), then backward()");
      }
    }
  }
}

void NetObject::Backward(int first, int last) {
  CheckRange(first, last);
  const py::gil_scoped_release unlocked;
  const std::lock_guard turn(*turn_);
  RunContext run = Context();
  if (last <= first) {
    PrepareBackward(run, static_cast<size_t>(last), static_cast<size_t>(first));
  }
  net_->BackwardFromTo(run, first, last);
}

void NetObject::Reshape() {
  const py::gil_scoped_release unlocked;
  const std::lock_guard turn(*turn_);
  RunContext run = Context();
  net_->Reshape(run);
}

void NetObject::AddHook(When when, py::object hook) {
  hooks_[when].push_back(std::move(hook));
  net_->set_layer_events(this);
}

void NetObject::OnLayer(When when, int layer) {
  if (silent_ || hooks_[when].empty()) return;
  const py::gil_scoped_acquire lock;
  for (size_t i = 0; i < hooks_[when].size(); ++i) {  // a hook may add hooks
    const py::object hook = hooks_[when][i];
    if (hook) hook(layer);
  }
}

namespace {

// An array that the net can read in place.
const float* InputArray(const py::array& array, const char* name, py::ssize_t axes_min) {
  const bool fits = array.dtype().equal(py::dtype::of<float>()) &&
                    (array.flags() & py::array::c_style) != 0 && array.ndim() >= axes_min &&
                    array.ndim() <= 4;
  if (!fits) {
    throw ConfigError(
        fmt::format("the {} array has dtype {} and {} axes{}", name,
                    py::str(array.dtype()).cast<std::string>(), array.ndim(),
                    (array.flags() & py::array::c_style) != 0 ? "" : ", and is not C-contiguous"),
        fmt::format("give numpy.ascontiguousarray({}, dtype=numpy.float32) with 4 axes", name));
  }
  return static_cast<const float*>(array.data());
}

}  // namespace

// The arrays are read in place, batch by batch: they are kept, not copied.
void NetObject::SetInputArrays(const py::array& data, const py::array& labels) {
  auto* layer = dynamic_cast<MemoryData<float>*>(net_->layers()[0].get());
  if (layer == nullptr) {
    throw ConfigError("set_input_arrays on a net whose first layer is no MemoryData",
                      "fill net.blobs[...].data instead");
  }
  const float* values = InputArray(data, "data", 4);
  const float* classes = InputArray(labels, "labels", 1);
  const int64_t rows = data.shape(0);
  if (data.shape(1) != layer->channels() || data.shape(2) != layer->height() ||
      data.shape(3) != layer->width()) {
    throw ConfigError(fmt::format("the data have rows of {} x {} x {}, the layer has {} x {} x {}",
                                  data.shape(1), data.shape(2), data.shape(3), layer->channels(),
                                  layer->height(), layer->width()),
                      "give rows of the layer's size");
  }
  if (labels.size() != rows) {
    throw ConfigError(fmt::format("{} labels for {} rows", labels.size(), rows),
                      "give one label for each row");
  }
  layer->Reset(values, classes, rows);
  input_data_ = data;
  input_labels_ = labels;
}

namespace {

using Path = std::filesystem::path;

std::shared_ptr<NetObject> MakeNet(const Path& file, int phase, int level,
                                   const std::optional<std::vector<std::string>>& stages,
                                   const std::optional<Path>& weights) {
  NetState state;
  if (phase != TRAIN && phase != TEST) throw py::value_error("phase is caffe.TRAIN or caffe.TEST");
  state.set_phase(static_cast<Phase>(phase));
  state.set_level(level);
  for (const std::string& stage : stages.value_or(std::vector<std::string>{})) {
    state.add_stage(stage);
  }
  auto stream = NewStream();
  const uint64_t seed = Session::Get().NextSeed();
  const Replica replica = Session::Get().replica;
  std::shared_ptr<Net<float>> net;
  {
    const py::gil_scoped_release unlocked;
    net = std::make_shared<Net<float>>(
        LoadNetSpec(file.string()), state,
        AlgorithmChoices{.asked = RunOptionsFromEnvironment().algorithm});
    net->Initialise(*stream, seed);
    if (weights) LoadWeights(*stream, weights->string(), *net);
  }
  return std::make_shared<NetObject>(net, stream, seed, replica,
                                     std::make_shared<NetObject::Turn>());
}

std::shared_ptr<NetObject> MakeNetOldWay(const Path& file, const Path& weights, int phase) {
  if (PyErr_WarnEx(PyExc_DeprecationWarning,
                   "Net(file, weights, phase) is the old form; use Net(file, phase, weights=...)",
                   1) != 0) {
    throw py::error_already_set();
  }
  return MakeNet(file, phase, 0, std::nullopt, weights);
}

void Save(const NetObject& self, const Path& file) {
  const py::gil_scoped_release unlocked;
  const NetParameter param = ToNetParameter(self.stream(), self.net(), false);
  if (param.ByteSizeLong() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    throw DataError(file.string(), -1, "a binaryproto ends at 2 GiB, and this net is larger",
                    "use save_hdf5");
  }
  WriteFileAtomically(file.string(), param.SerializeAsString());
}

std::vector<std::string> LayerNames(const NetObject& self) {
  std::vector<std::string> names;
  for (const auto& layer : self.net().layers()) names.push_back(layer->name());
  return names;
}

py::list Layers(const NetObject& self) {
  py::list layers;
  for (const auto& layer : self.net().layers()) {
    py::object written = PythonObjectOf(*layer);
    layers.append(written ? written
                          : py::cast(std::make_shared<LayerObject>(*layer, self.shared())));
  }
  return layers;
}

BlobHandles AllBlobs(const NetObject& self) {
  BlobHandles blobs;
  for (const auto& blob : self.net().blobs()) {
    blobs.push_back(std::make_shared<BlobHandle>(blob.get(), self.shared(), false));
  }
  return blobs;
}

std::vector<float> LossWeights(const NetObject& self) {
  std::vector<float> weights;
  for (size_t i = 0; i < self.net().blobs().size(); ++i) {
    weights.push_back(self.net().blob_loss_weight(static_cast<int>(i)));
  }
  return weights;
}

const std::vector<int>& IdsOf(const NetObject& self, const std::vector<std::vector<int>>& ids,
                              int layer) {
  if (layer < 0 || static_cast<size_t>(layer) >= self.net().layers().size()) {
    throw py::index_error("there is no such layer");
  }
  return ids[static_cast<size_t>(layer)];
}

}  // namespace

void BindNet(py::module_& module) {
  using Unlock = py::call_guard<py::gil_scoped_release>;
  py::class_<NetObject, std::shared_ptr<NetObject>> net(module, "Net", py::dynamic_attr(),
                                                        Collected<NetObject>::Setup(),
                                                        "A net that was read from a prototxt.");
  net.def(py::init(&MakeNet), py::arg("network_file"), py::arg("phase"), py::arg("level") = 0,
          py::arg("stages") = py::none(), py::arg("weights") = py::none())
      .def(py::init(&MakeNetOldWay), py::arg("network_file"), py::arg("weights"), py::arg("phase"))
      .def("_forward", &NetObject::Forward, py::arg("first"), py::arg("last"))
      .def("_backward", &NetObject::Backward, py::arg("first"), py::arg("last"))
      .def("reshape", &NetObject::Reshape,
           "Works out all shapes anew, after an input was reshaped.")
      .def(
          "clear_param_diffs",
          [](const NetObject& self) { self.net().ClearParamDiffs(self.stream()); }, Unlock(),
          "Sets all gradients of parameters to 0.")
      .def(
          "copy_from",
          [](const NetObject& self, const Path& file) {
            LoadWeights(self.stream(), file.string(), self.net());
          },
          Unlock(), py::arg("weights"), "Takes over the weights of a file, by the layers' names.")
      .def(
          "share_with",
          [](const NetObject& self, const NetObject& other) {
            self.net().ShareParamsWith(other.net());
          },
          py::arg("other"),
          "From now on this net's parameters are the other's, by the layers' names.")
      .def("save", &Save, py::arg("file"), "Writes a .caffemodel.")
      .def(
          "save_hdf5",
          [](const NetObject& self, const Path& file, bool write_diff) {
            WriteWeightsHdf5(self.stream(), self.net(), write_diff, file.string());
          },
          Unlock(), py::arg("file"), py::arg("write_diff") = false)
      .def(
          "load_hdf5",
          [](const NetObject& self, const Path& file) {
            LoadWeightsHdf5(self.stream(), file.string(), self.net());
          },
          Unlock(), py::arg("file"))
      .def("_set_input_arrays", &NetObject::SetInputArrays)
      .def("_add_hook",
           [](NetObject& self, int when, const py::object& hook) {
             self.AddHook(static_cast<LayerEvents::When>(when), hook);
           })
      .def_property_readonly("name", [](const NetObject& self) { return self.net().name(); })
      .def_property_readonly(
          "phase", [](const NetObject& self) { return static_cast<int>(self.net().phase()); })
      .def_property_readonly("_layer_names", &LayerNames)
      .def_property_readonly("_blob_names",
                             [](const NetObject& self) { return self.net().blob_names(); })
      .def_property_readonly("_blobs", &AllBlobs)
      .def_property_readonly("_layers", &Layers)
      .def_property_readonly("_blob_loss_weights", &LossWeights)
      .def_property_readonly("_inputs",
                             [](const NetObject& self) { return self.net().input_ids(); })
      .def_property_readonly("_outputs",
                             [](const NetObject& self) { return self.net().output_ids(); })
      .def("_bottom_ids", [](const NetObject& self,
                             int layer) { return IdsOf(self, self.net().bottom_ids(), layer); })
      .def("_top_ids", [](const NetObject& self,
                          int layer) { return IdsOf(self, self.net().top_ids(), layer); })
      .def("_summary_text",
           [](const NetObject& self) { return SummaryTable(Summarize(self.net())); })
      .def("_summary_json",
           [](const NetObject& self) { return SummaryJson(Summarize(self.net())); });
}

}  // namespace carafe::python
