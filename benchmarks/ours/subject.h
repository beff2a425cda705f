// What is timed: a training step of a solver, or the forward pass of a deployed net, with inputs
// that are filled once and stay.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/ours/tensor_file.h"
#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"

namespace carafe {

struct SubjectOptions {
  std::string solver;  // a solver's prototxt: trains; or
  std::string model;   // a net's: deploys
  int threads = 1;
  int classes = 1;         // labels are drawn below this
  bool in_double = false;  // for main.cpp: which Subject
};

// Used by one thread. T is float; double tells what is right.
template <typename T>
class Subject {
 public:
  explicit Subject(const SubjectOptions& options);
  Subject(const Subject&) = delete;  // solver and net refer to its stream and group
  Subject& operator=(const Subject&) = delete;

  // Seconds of each of `iterations` steps or passes, all updates done.
  std::vector<double> Run(int iterations);
  // Multiplications and additions of one of them, by the definition of convolution and matrix
  // product, whatever the algorithm that does them.
  double Flop() const;
  int64_t Learned() const;  // parameters

  // Inputs and parameters as they are now.
  std::vector<Tensor> Start();
  // Takes over those of another subject.
  void Load(const std::vector<Tensor>& start);
  // Runs once. Training: the loss, then for each learned parameter its momentum divided by the
  // rate, which after the first step is gradient + decay * value. Deploy: the scores, the bottom of
  // the last layer.
  std::vector<Tensor> Result();

 private:
  Net<T>& net() const { return solver_ ? solver_->net() : *net_; }
  void FillStatistics();
  void Iterate();

  Stream stream_;
  Group alone_;
  std::unique_ptr<Solver<T>> solver_;
  std::unique_ptr<Net<T>> net_;  // only without a solver
  double loss_ = 0;
};

}  // namespace carafe
