#include "python/src/blob.h"

#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/core/pinned.h"

namespace py = pybind11;

namespace carafe::python {
namespace {

// What an array on a blob keeps: the memory that it shows, and all that belongs to it.
struct Kept {
  std::shared_ptr<void> owner;
  Pin pin;
};

py::tuple ShapeTuple(const Shape& shape) {
  py::tuple dims(static_cast<size_t>(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i) dims[static_cast<size_t>(i)] = shape[i];
  return dims;
}

int64_t LegacyDim(const BlobHandle& handle, int axis) {
  const Shape& shape = handle.get().shape();
  if (shape.rank() > 4) {
    throw ConfigError(
        fmt::format("num, channels, height and width of a blob with {} axes", shape.rank()),
        "use shape");
  }
  return shape.LegacyDim(axis);
}

// NumPy's own rules for dtype and copy, on the view.
py::object AsArray(const BlobHandle& handle, const py::object& dtype, const py::object& copy) {
  py::object array = handle.Data();
  if (!dtype.is_none()) {
    const bool must_copy = !py::dtype::from_args(dtype).equal(py::dtype::of<float>());
    if (must_copy && copy.ptr() == Py_False) {
      throw py::value_error("a blob holds float32: another dtype needs a copy");
    }
    if (must_copy) return array.attr("astype")(dtype);
  }
  return copy.ptr() == Py_True ? py::object(array.attr("copy")()) : array;
}

std::string Text(const BlobHandle& handle) {
  std::string dims;
  for (const int64_t dim : handle.get().shape().dims()) {
    dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
  }
  return "<caffe.Blob (" + dims + ")>";
}

}  // namespace

Stream& HostStream() {
  static Stream stream;
  return stream;
}

Blob<float>& BlobHandle::get() const {
  if (blob_ == nullptr) {
    throw Error("the net that this blob belongs to is gone",
                "keep the net, or take a copy: blob.data.copy()");
  }
  return *blob_;
}

void BlobHandle::Reshape(const Shape& shape) {
  Blob<float>& blob = get();
  if (fixed_count_ && shape.Count() != blob.count()) {
    throw ConfigError(fmt::format("a parameter of {} elements cannot be reshaped to {}",
                                  blob.count(), shape.ToString()),
                      "change its layer's settings in the prototxt instead");
  }
  blob.Reshape(shape);
}

py::array_t<float> BlobHandle::View(float* memory) const {
  const auto dims = blob_->shape().dims();
  py::capsule base(new Kept{owner_, Pin(memory)},
                   [](void* kept) { delete static_cast<Kept*>(kept); });
  return py::array_t<float>(std::vector<py::ssize_t>(dims.begin(), dims.end()), memory, base);
}

py::array_t<float> BlobHandle::Data() const { return View(get().mutable_data(HostStream())); }
py::array_t<float> BlobHandle::Diff() const { return View(get().mutable_diff(HostStream())); }

Shape ShapeOf(const py::args& dims) {
  std::vector<int64_t> sizes;
  const bool listed = dims.size() == 1 && py::isinstance<py::sequence>(dims[0]);
  const py::sequence all = listed ? py::sequence(dims[0]) : py::sequence(dims);
  for (const py::handle dim : all) {
    sizes.push_back(py::cast<int64_t>(py::reinterpret_steal<py::object>([&] {
      PyObject* index = PyNumber_Index(dim.ptr());
      if (index == nullptr) throw py::error_already_set();
      return index;
    }())));
  }
  return Shape(sizes);
}

void BindBlob(py::module_& module) {
  py::class_<BlobHandle, std::shared_ptr<BlobHandle>>(
      module, "Blob", "An array of a net: values (data) and gradients (diff).")
      .def_property_readonly("data", &BlobHandle::Data,
                             "The values, as a float32 array on the blob's own memory.")
      .def_property_readonly("diff", &BlobHandle::Diff,
                             "The gradients, as a float32 array on the blob's own memory.")
      .def_property_readonly("shape",
                             [](const BlobHandle& b) { return ShapeTuple(b.get().shape()); })
      .def_property_readonly("count", [](const BlobHandle& b) { return b.get().count(); })
      .def_property_readonly("num", [](const BlobHandle& b) { return LegacyDim(b, 0); })
      .def_property_readonly("channels", [](const BlobHandle& b) { return LegacyDim(b, 1); })
      .def_property_readonly("height", [](const BlobHandle& b) { return LegacyDim(b, 2); })
      .def_property_readonly("width", [](const BlobHandle& b) { return LegacyDim(b, 3); })
      .def(
          "reshape", [](BlobHandle& b, const py::args& dims) { b.Reshape(ShapeOf(dims)); },
          "Gives it another shape: reshape(1, 3, 227, 227).")
      .def("__array__", &AsArray, py::arg("dtype") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack__",
           [](const BlobHandle& b, const py::kwargs& options) {
             return b.Data().attr("__dlpack__")(**options);
           })
      .def("__dlpack_device__",
           [](const BlobHandle& b) { return b.Data().attr("__dlpack_device__")(); })
      .def("__repr__", &Text);
}

}  // namespace carafe::python
