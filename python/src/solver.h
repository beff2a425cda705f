// caffe.SGDSolver and the others: a training run that Python drives, on every rank alike.
#pragma once

#include <pybind11/pybind11.h>

namespace carafe::python {

void BindSolver(pybind11::module_& module);

}  // namespace carafe::python
