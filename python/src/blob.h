// caffe.Blob: arrays of a net as NumPy sees them.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>  // BlobHandles become lists, in every file alike

#include <memory>
#include <vector>

#include "carafe/core/blob.h"

namespace carafe::python {

// A blob that Python holds. All use is under the interpreter's lock.
class BlobHandle {
 public:
  // `owner` keeps the blob alive; null where the lender takes it back (Retarget) before it dies.
  // `fixed_count`: the blob lies among others and may change its shape, but not its size.
  BlobHandle(Blob<float>* blob, std::shared_ptr<void> owner, bool fixed_count)
      : owner_(std::move(owner)), blob_(blob), fixed_count_(fixed_count) {}

  // Another blob from now on; null: the net is gone.
  void Retarget(Blob<float>* blob, std::shared_ptr<void> owner, bool fixed_count) {
    owner_ = std::move(owner);
    blob_ = blob;
    fixed_count_ = fixed_count;
  }
  Blob<float>& get() const;
  void Reshape(const Shape& shape);
  // A view, no copy. It stays valid whatever happens to blob and net; when the blob has grown
  // since, it shows the old memory.
  pybind11::array_t<float> Data() const;
  pybind11::array_t<float> Diff() const;

 private:
  pybind11::array_t<float> View(float* memory) const;

  std::shared_ptr<void> owner_;
  Blob<float>* blob_;
  bool fixed_count_;
};

using BlobHandles = std::vector<std::shared_ptr<BlobHandle>>;

// The sizes of `dims`: integers, or one sequence of them.
Shape ShapeOf(const pybind11::args& dims);

// For looking at blobs: their memory is the host's. Without state, so any thread may use it.
Stream& HostStream();

void BindBlob(pybind11::module_& module);

}  // namespace carafe::python
