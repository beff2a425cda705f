// caffe.Layer: a layer of a net as Python sees it, and the base of layers written in Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "carafe/layers/layer.h"
#include "python/src/blob.h"

namespace carafe::python {

// What a layer written in Python is made of: the argument of its __init__.
struct LayerStart {
  std::string type, name, param_str;
  int phase = 0;
};

// All use is under the interpreter's lock.
class LayerObject {
 public:
  explicit LayerObject(const LayerStart& start) : start_(start) {}
  // A layer of C++; `owner` keeps it alive.
  LayerObject(Layer<float>& layer, std::shared_ptr<void> owner);

  const LayerStart& start() const { return start_; }
  // The parameters: those of the net once it has made them, before that those of AddBlob.
  const BlobHandles& blobs();
  void AddBlob(const Shape& shape);
  void Attach(Layer<float>* layer) { layer_ = layer; }  // null: the net is gone

 private:
  const LayerStart start_;
  std::shared_ptr<void> owner_;
  Layer<float>* layer_ = nullptr;
  BlobHandles blobs_;
  bool placed_ = false;  // blobs_ are the net's
};

void BindLayer(pybind11::module_& module);

// The Python object of a layer written in Python, null for others.
pybind11::object PythonObjectOf(const Layer<float>& layer);

}  // namespace carafe::python
