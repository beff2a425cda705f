// For classes whose C++ objects hold objects of Python: lets Python's collector see them, so that a
// hook which mentions its own net does not keep both forever.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

namespace carafe::python {

// T has VisitHeld(f), which calls f(pybind11::object&) for each object that only it owns. The
// collector clears them when nothing else is left that could use T. Goes with dynamic_attr, whose
// own part is called first.
template <typename T>
class Collected {
 public:
  static pybind11::custom_type_setup Setup() {
    return pybind11::custom_type_setup([](PyHeapTypeObject* heap_type) {
      PyTypeObject& type = heap_type->ht_type;
      traverse_attributes_ = type.tp_traverse;
      clear_attributes_ = type.tp_clear;
      type.tp_flags |= Py_TPFLAGS_HAVE_GC;
      type.tp_traverse = &Traverse;
      type.tp_clear = &Clear;
    });
  }

 private:
  // Null until its constructor has run. The collector may come even before pybind11 has laid out
  // the zeroed memory.
  static T* Find(PyObject* self) {
    auto* const instance = reinterpret_cast<pybind11::detail::instance*>(self);
    if (!instance->simple_layout && instance->nonsimple.values_and_holders == nullptr) {
      return nullptr;
    }
    const auto holder = instance->get_value_and_holder();
    return holder.holder_constructed() ? static_cast<T*>(holder.value_ptr()) : nullptr;
  }
  static int Traverse(PyObject* self, visitproc visit, void* arg) {
    int result = traverse_attributes_ != nullptr ? traverse_attributes_(self, visit, arg) : 0;
    if (T* const object = Find(self)) {
      object->VisitHeld([&](pybind11::object& held) {
        if (result == 0 && held) result = visit(held.ptr(), arg);
      });
    }
    return result;
  }
  static int Clear(PyObject* self) {
    const int result = clear_attributes_ != nullptr ? clear_attributes_(self) : 0;
    if (T* const object = Find(self)) {
      pybind11::list released;  // let go of at the end, when no list is being walked any more
      object->VisitHeld([&](pybind11::object& held) {
        if (held) released.append(std::exchange(held, pybind11::object()));
      });
    }
    return result;
  }

  static inline traverseproc traverse_attributes_ = nullptr;
  static inline inquiry clear_attributes_ = nullptr;
};

}  // namespace carafe::python
