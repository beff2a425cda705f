#include "python/src/misc.h"

#include <pybind11/stl.h>

#include "carafe/base/timer.h"
#include "carafe/layers/layer.h"

namespace py = pybind11;

namespace carafe::python {
namespace {

// Wall time between start and stop, in milliseconds.
class TimerObject {
 public:
  void Start() {
    timer_.Reset();
    running_ = true;
  }
  void Stop() {
    if (running_) ms_ = timer_.Seconds() * 1e3;
    running_ = false;
  }
  double Ms() {
    Stop();
    return ms_;
  }

 private:
  Timer timer_;
  bool running_ = false;
  double ms_ = 0;
};

}  // namespace

void BindMisc(py::module_& module) {
  py::class_<TimerObject>(module, "Timer", "A stop watch.")
      .def(py::init<>())
      .def("start", &TimerObject::Start)
      .def("stop", &TimerObject::Stop)
      .def_property_readonly("ms", &TimerObject::Ms, "Milliseconds between start and stop.");
  module.def("has_nccl", [] { return false; });
  module.def(
      "layer_type_list", [] { return LayerRegistry::Instance().Names(); },
      "All layer types that a prototxt may name.");
  module.attr("__version__") = CARAFE_VERSION;
  module.attr("TRAIN") = static_cast<int>(TRAIN);
  module.attr("TEST") = static_cast<int>(TEST);
}

}  // namespace carafe::python
