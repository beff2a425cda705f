#include "python/src/bindings.h"

#include "python/src/blob.h"
#include "python/src/errors.h"
#include "python/src/layer.h"
#include "python/src/misc.h"
#include "python/src/net.h"
#include "python/src/session.h"
#include "python/src/solver.h"

namespace carafe::python {

void BindAll(PyObject* object) {
  auto module = pybind11::reinterpret_borrow<pybind11::module_>(object);
  BindErrors(module);
  BindBlob(module);
  BindLayer(module);
  BindNet(module);
  BindSolver(module);
  BindSession(module);
  BindMisc(module);
}

}  // namespace carafe::python
