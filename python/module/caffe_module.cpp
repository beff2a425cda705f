// The module caffe._caffe: all of it lies in libcarafe_python.so, which programs load, too.
#include "python/src/bindings.h"

PYBIND11_MODULE(_caffe, module) {
  module.doc() = "Carafe's C++ library as Caffe's Python interface knows it.";
  carafe::python::BindAll(module.ptr());
}
