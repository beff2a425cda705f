#include "python/src/layer.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace py = pybind11;

namespace carafe::python {
namespace {

// The list of a layer's parameters. Looks at the layer at every use, for the net makes them only
// after setup.
struct BlobVec {
  std::shared_ptr<LayerObject> layer;

  size_t size() const { return layer->blobs().size(); }
  std::shared_ptr<BlobHandle> At(int64_t index) const {
    const BlobHandles& blobs = layer->blobs();
    const int64_t count = static_cast<int64_t>(blobs.size());
    const int64_t at = index < 0 ? index + count : index;
    if (at < 0 || at >= count) {
      throw py::index_error(
          fmt::format("the layer has {} parameters, not one of number {}", count, index));
    }
    return blobs[static_cast<size_t>(at)];
  }
  py::list Slice(const py::slice& slice) const {
    size_t start = 0, stop = 0, step = 0, length = 0;
    if (!slice.compute(size(), &start, &stop, &step, &length)) throw py::error_already_set();
    py::list part;
    for (size_t i = 0; i < length; ++i, start += step) part.append(layer->blobs()[start]);
    return part;
  }
};

[[noreturn]] void NotWritten(const char* method) {
  PyErr_Format(PyExc_NotImplementedError, "a layer written in Python needs the method %s", method);
  throw py::error_already_set();
}

}  // namespace

LayerObject::LayerObject(Layer<float>& layer, std::shared_ptr<void> owner)
    : start_{layer.spec().param().type(), layer.name(), "", static_cast<int>(layer.spec().phase())},
      owner_(std::move(owner)),
      layer_(&layer) {}

const BlobHandles& LayerObject::blobs() {
  if (placed_ || layer_ == nullptr || layer_->blobs().empty()) return blobs_;
  const auto& real = layer_->blobs();
  for (size_t i = 0; i < real.size(); ++i) {
    if (i < blobs_.size()) {
      blobs_[i]->Retarget(real[i].get(), real[i], true);
    } else {
      blobs_.push_back(std::make_shared<BlobHandle>(real[i].get(), real[i], true));
    }
  }
  placed_ = true;
  return blobs_;
}

void LayerObject::AddBlob(const Shape& shape) {
  if (owner_ || (layer_ != nullptr && !layer_->blobs().empty())) {
    throw ConfigError(
        fmt::format("layer \"{}\" is part of a net and cannot get further parameters", start_.name),
        "call add_blob in setup of a layer written in Python");
  }
  auto blob = std::make_shared<Blob<float>>(shape);
  blobs_.push_back(std::make_shared<BlobHandle>(blob.get(), blob, false));
}

void BindLayer(py::module_& module) {
  py::class_<LayerStart>(module, "_LayerStart");
  py::class_<BlobVec>(module, "BlobVec", "The parameters of a layer.")
      .def("__len__", &BlobVec::size)
      .def("__getitem__", &BlobVec::At)
      .def("__getitem__", &BlobVec::Slice)
      .def("__iter__",
           [](const BlobVec& vec) { return py::object(py::iter(py::cast(vec.layer->blobs()))); })
      .def(
          "add_blob",
          [](const BlobVec& vec, const py::args& dims) { vec.layer->AddBlob(ShapeOf(dims)); },
          "In setup of a layer written in Python: one more parameter, of this shape.")
      .def("__repr__", [](const BlobVec& vec) { return py::repr(py::cast(vec.layer->blobs())); });
  py::class_<LayerObject, std::shared_ptr<LayerObject>>(module, "Layer", py::dynamic_attr(),
                                                        R"(A layer of a net.

Derive from it to write a layer in Python, and name it in the prototxt:

    layer { type: "Python" name: "double" bottom: "x" top: "y"
            python_param { module: "my_layers" layer: "Double" param_str: "" } }

The class has setup(bottom, top), called once; reshape(bottom, top) and forward(bottom, top), called in every pass;
and backward(top, propagate_down, bottom). It sees self.param_str, self.phase, self.name and self.blobs.)")
      .def(py::init<const LayerStart&>(), py::arg("start"))
      .def_property_readonly("type", [](const LayerObject& l) { return l.start().type; })
      .def_property_readonly("name", [](const LayerObject& l) { return l.start().name; })
      .def_property_readonly("phase", [](const LayerObject& l) { return l.start().phase; })
      .def_property_readonly("param_str", [](const LayerObject& l) { return l.start().param_str; })
      .def_property_readonly("blobs",
                             [](const std::shared_ptr<LayerObject>& l) { return BlobVec{l}; })
      .def("setup", [](LayerObject&, const py::object&, const py::object&) {})
      .def("reshape",
           [](LayerObject&, const py::object&, const py::object&) { NotWritten("reshape"); })
      .def("forward",
           [](LayerObject&, const py::object&, const py::object&) { NotWritten("forward"); })
      .def("backward", [](LayerObject&, const py::object&, const py::object&, const py::object&) {
        NotWritten("backward");
      });
}

}  // namespace carafe::python
