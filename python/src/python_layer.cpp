// The layer type "Python": a class that the user wrote, asked by the net like any layer. Every call
// takes the interpreter's lock, so nets may run with the lock released.
#include <fmt/format.h>

#include "carafe/layers/python_plugin.h"
#include "python/src/errors.h"
#include "python/src/interpreter.h"
#include "python/src/layer.h"

namespace py = pybind11;

namespace carafe::python {
namespace {

class PythonLayer final : public Layer<float> {
 public:
  explicit PythonLayer(const LayerSpec& spec) : Layer<float>(spec) {
    const PythonParameter& param = spec.param().python_param();
    spec.Check(param.has_module() && param.has_layer(), "python_param",
               "python_param names no module and class",
               "give python_param { module: \"my_layers\" layer: \"MyLayer\" }");
    EnsureInterpreter();
    const py::gil_scoped_acquire lock;
    // Local until nothing can fail any more: what is thrown here takes the lock along.
    py::object self, bottoms, tops;
    Guard("import", [&] {
      const py::object made =
          py::module_::import(param.module().c_str()).attr(param.layer().c_str());
      spec.Check(PyType_Check(made.ptr()) && PyObject_IsSubclass(made.ptr(), LayerClass()) == 1,
                 "python_param.layer",
                 fmt::format("{}.{} is no caffe.Layer", param.module(), param.layer()),
                 "derive the class from caffe.Layer");
      const LayerStart start{spec.param().type(), spec.name(), param.param_str(),
                             static_cast<int>(spec.phase())};
      self = made(start);
      object_ = self.cast<std::shared_ptr<LayerObject>>();
      bottom_handles_ = Handles(spec.param().bottom_size());
      top_handles_ = Handles(spec.param().top_size());
      bottoms = py::tuple(py::cast(bottom_handles_));
      tops = py::tuple(py::cast(top_handles_));
    });
    self_ = std::move(self);
    bottoms_ = std::move(bottoms);
    tops_ = std::move(tops);
  }

  ~PythonLayer() override {
    if (Py_IsInitialized() == 0) {  // the interpreter has gone before: nothing to let go of
      self_.release();
      bottoms_.release();
      tops_.release();
      return;
    }
    const py::gil_scoped_acquire lock;
    Lend({}, bottom_handles_);
    Lend({}, top_handles_);
    object_->blobs();  // what Python still holds of the parameters are the net's
    object_->Attach(nullptr);
    self_ = py::object();
    bottoms_ = py::object();
    tops_ = py::object();
    object_.reset();
  }

  // The class sees blobs, not shapes: these are of its own, until the net lends it the real ones.
  Shapes InferShapes(const Shapes& bottom) const override {
    const py::gil_scoped_acquire lock;
    std::vector<Blob<float>*> bottoms, tops;
    scratch_.clear();
    const LayerParameter& param = spec().param();
    for (size_t i = 0; i < bottom.size(); ++i) {
      scratch_.push_back(std::make_unique<Blob<float>>(bottom[i]));
      bottoms.push_back(scratch_.back().get());
    }
    for (int i = 0; i < param.top_size(); ++i) {
      const bool in_place = i < param.bottom_size() && param.top(i) == param.bottom(i);
      if (!in_place) scratch_.push_back(std::make_unique<Blob<float>>(Shape{0}));
      tops.push_back(in_place ? bottoms[static_cast<size_t>(i)] : scratch_.back().get());
    }
    Lend(bottoms, bottom_handles_);
    Lend(tops, top_handles_);
    if (!is_set_up_) {
      Guard("setup", [&] { self_.attr("setup")(bottoms_, tops_); });
      is_set_up_ = true;
    }
    Guard("reshape", [&] { self_.attr("reshape")(bottoms_, tops_); });
    Shapes shapes;
    for (const Blob<float>* top : tops) shapes.push_back(top->shape());
    return shapes;
  }

  // Those that setup asked for with self.blobs.add_blob, with the values it gave them.
  std::vector<ParamDef> DeclareParams(const Shapes&) const override {
    const py::gil_scoped_acquire lock;
    std::vector<ParamDef> defs;
    initial_values_.clear();
    for (const auto& handle : object_->blobs()) {
      const Blob<float>& blob = handle->get();
      defs.push_back({.shape = blob.shape()});
      const std::vector<float> values = blob.DataToHost(HostStream());
      initial_values_.emplace_back(values.begin(), values.end());
    }
    return defs;
  }
  std::optional<std::vector<double>> InitialValuesOf(int index) const override {
    return initial_values_[static_cast<size_t>(index)];
  }

  void Reshape(RunContext& run, Blobs<float> bottom, Blobs<float> top) override {
    spec().Check(run.stream.on_cpu(), "type", "layers written in Python run on the CPU only",
                 "run the net on the CPU");
    const py::gil_scoped_acquire lock;
    object_->Attach(this);
    scratch_.clear();
    Lend(bottom, bottom_handles_);
    Lend(top, top_handles_);
    Guard("reshape", [&] { self_.attr("reshape")(bottoms_, tops_); });
  }
  void Forward(RunContext&, Blobs<float>, Blobs<float>) override {
    const py::gil_scoped_acquire lock;
    Guard("forward", [&] { self_.attr("forward")(bottoms_, tops_); });
  }
  void Backward(RunContext&, Blobs<float>, const std::vector<bool>& propagate_down,
                Blobs<float>) override {
    const py::gil_scoped_acquire lock;
    Guard("backward", [&] {
      py::list down;
      for (const bool wanted : propagate_down) down.append(wanted);
      self_.attr("backward")(tops_, down, bottoms_);
    });
  }

  bool RewindForward(Stream&, int) override { return false; }  // nobody knows what forward() does

  // The object that the user wrote. As soon as the net has its parameters, so has it.
  py::object self() {
    object_->Attach(this);
    return self_;
  }

 private:
  static PyObject* LayerClass() { return py::type::of<LayerObject>().ptr(); }
  static BlobHandles Handles(int count) {
    BlobHandles handles;
    for (int i = 0; i < count; ++i) {
      handles.push_back(std::make_shared<BlobHandle>(nullptr, nullptr, false));
    }
    return handles;
  }
  static void Lend(std::span<Blob<float>* const> blobs, const BlobHandles& handles) {
    for (size_t i = 0; i < handles.size(); ++i) {
      handles[i]->Retarget(i < blobs.size() ? blobs[i] : nullptr, nullptr, false);
    }
  }
  template <typename F>
  void Guard(const char* method, const F& body) const {
    try {
      body();
    } catch (const py::error_already_set& raised) {
      throw PythonLayerError(spec(), method, raised);
    }
  }

  py::object self_;
  std::shared_ptr<LayerObject> object_;  // within self_
  BlobHandles bottom_handles_, top_handles_;
  py::object bottoms_, tops_;  // tuples of the same, as the methods get them
  mutable std::vector<std::unique_ptr<Blob<float>>> scratch_;
  mutable std::vector<std::vector<double>> initial_values_;
  mutable bool is_set_up_ = false;
};

std::unique_ptr<Layer<float>> Make(const LayerSpec& spec) {
  return std::make_unique<PythonLayer>(spec);
}

const PythonPlugin kPlugin{&Make};
[[maybe_unused]] const bool kRegistered = [] {
  SetPythonPlugin(&kPlugin);
  return true;
}();

}  // namespace

py::object PythonObjectOf(const Layer<float>& layer) {
  auto* written = dynamic_cast<PythonLayer*>(const_cast<Layer<float>*>(&layer));
  return written != nullptr ? written->self() : py::object();
}

}  // namespace carafe::python
