// caffe.Net: a net with what running it needs.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "carafe/net/net.h"

namespace carafe::python {

// The interpreter's lock is released while the net runs. Threads of Python that run the same net do
// so one after the other; hooks and layers written in Python may run it again from within.
class NetObject : private LayerEvents {
 public:
  // Held by the thread that runs the net, or the solver that it belongs to; never waited for with
  // the interpreter's lock.
  using Turn = std::recursive_mutex;
  // `net` with all that it needs to live.
  NetObject(std::shared_ptr<Net<float>> net, std::shared_ptr<Stream> stream, uint64_t seed,
            const Replica& replica, std::shared_ptr<Turn> turn);
  ~NetObject() override;

  Net<float>& net() const { return *net_; }
  const std::shared_ptr<Net<float>>& shared() const { return net_; }
  Stream& stream() const { return *stream_; }

  // Layers first to last, both included. A run from layer 0 on is a new pass: data layers give the
  // next batch, random layers draw again.
  double Forward(int first, int last);
  void Backward(int first, int last);
  void Reshape();
  // Where data layers go on; `origin` as in Pass.
  void set_next_pass(int64_t pass, int64_t origin) {
    next_pass_ = pass;
    pass_.origin = origin;
  }

  // What Backward needs of a forward pass that was not run by Forward.
  void RememberShapes(size_t first, size_t last);
  void RememberShapes() { RememberShapes(0, net_->layers().size() - 1); }

  void AddHook(When when, pybind11::object hook);
  void SetInputArrays(const pybind11::array& data, const pybind11::array& labels);

  template <typename F>
  void VisitHeld(const F& visit) {  // see collected.h
    for (auto& hooks : hooks_) {
      for (pybind11::object& hook : hooks) visit(hook);
    }
    visit(input_data_);
    visit(input_labels_);
  }

 private:
  void OnLayer(When when, int layer) override;
  RunContext Context() const;
  void CheckRange(int first, int last) const;
  void PrepareBackward(RunContext& run, size_t first, size_t last);

  std::shared_ptr<Net<float>> net_;
  std::shared_ptr<Stream> stream_;
  Pass pass_;
  const Replica replica_;
  const std::shared_ptr<Turn> turn_;
  int64_t next_pass_ = 0;
  // By layer: its bottoms and tops in the last forward pass; empty before the first one.
  std::vector<Shapes> ran_with_;
  bool silent_ = false;                                 // hooks are not called
  std::array<std::vector<pybind11::object>, 4> hooks_;  // by When
  pybind11::object input_data_, input_labels_;          // what MemoryData reads
};

void BindNet(pybind11::module_& module);

}  // namespace carafe::python
