// The small things of the module: Timer, NCCL's names, lists.
#pragma once

#include <pybind11/pybind11.h>

namespace carafe::python {

void BindMisc(pybind11::module_& module);

}  // namespace carafe::python
