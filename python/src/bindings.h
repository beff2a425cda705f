// The whole of the module caffe._caffe.
#pragma once

#include <pybind11/pybind11.h>

namespace carafe::python {

// Takes the bare object, for a function with a type of pybind11 is seen in its own library only.
void BindAll(PyObject* module);

}  // namespace carafe::python
