// Errors on their way between C++ and Python.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <memory>
#include <string>

#include "carafe/base/error.h"
#include "carafe/layers/layer.h"

namespace carafe::python {

// What a layer written in Python raised. In C++ it is an Error whose text names the layer and holds
// Python's traceback; where it comes back to Python it is the very exception that was raised.
class PythonLayerError : public Error {
 public:
  // Called while the interpreter's lock is held.
  PythonLayerError(const LayerSpec& spec, const char* method,
                   const pybind11::error_already_set& raised);
  void Raise() const;  // sets Python's error; the lock is held

 private:
  std::string title_;
  std::shared_ptr<pybind11::error_already_set> raised_;
};

// caffe.Error and its kinds, and their way out of C++.
void BindErrors(pybind11::module_& module);

}  // namespace carafe::python
