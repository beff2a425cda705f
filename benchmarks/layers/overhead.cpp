// carafe_overhead [THREADS]: what the framework itself costs in a training step. Chains of layers
// with next to no arithmetic (8 numbers each) and all of the machinery: shapes, formats, events of
// parameters, the exchange, the update. The step of the shortest chain, and what each further layer
// adds, forward and backward together; best of many steps.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "carafe/base/timer.h"
#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"

namespace carafe::benchmark {
namespace {

std::string Layer(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& more) {
  return fmt::format("layer {{ name: \"{}\" type: \"{}\" bottom: \"{}\" top: \"{}\" {} }} ", name,
                     type, bottom, name, more);
}

// One Convolution, `links` layers of the type, and a loss.
std::string Chain(const std::string& type, const std::string& more, int links) {
  std::string net =
      "layer { name: \"in\" type: \"Input\" top: \"x\" top: \"y\" input_param { shape { dim: 1 "
      "dim: "
      "8 dim: 1 dim: 1 } shape { dim: 1 dim: 8 dim: 1 dim: 1 } } } " +
      Layer("Convolution", "0", "x", "convolution_param { num_output: 8 kernel_size: 1 }");
  for (int i = 0; i < links; ++i)
    net += Layer(type, std::to_string(i + 1), std::to_string(i), more);
  return net + Layer("EuclideanLoss", "loss", std::to_string(links), "bottom: \"y\"");
}

double BestSeconds(const std::string& net, int threads) {
  Stream stream(CpuDevice(), threads);
  Group group;
  Solver<float> solver(
      ParseSolverSpec(
          fmt::format("base_lr: 1e-6 lr_policy: \"fixed\" momentum: 0.9 net_param {{ {} }}", net),
          ""),
      stream, {});
  solver.net().SetPlan({.asked = "gemm"});
  solver.Connect("allreduce", group, {.bucket_bytes = 1 << 20});
  double best = 1e9;
  for (int i = 0; i < 2000; ++i) {
    const Timer timer;
    solver.Step();
    solver.Drain();
    best = std::min(best, timer.Seconds());
  }
  return best;
}

void Measure(const std::string& type, const std::string& more, int threads) {
  constexpr int kFew = 1, kMany = 41;
  const double few = BestSeconds(Chain(type, more, kFew), threads);
  const double many = BestSeconds(Chain(type, more, kMany), threads);
  fmt::print("{:<14} {:10.2f} {:14.3f}\n", type, few * 1e6, (many - few) / (kMany - kFew) * 1e6);
}

}  // namespace
}  // namespace carafe::benchmark

int main(int argc, char** argv) {
  namespace b = carafe::benchmark;
  const int threads = argc > 1 ? std::max(1, std::atoi(argv[1])) : 1;
  fmt::print("{:<14} {:>10} {:>14}\n", "microseconds", "4 layers", "one more layer");
  b::Measure("Power", "power_param { scale: 0.5 }", threads);
  b::Measure("ReLU", "", threads);
  b::Measure("Pooling", "pooling_param { kernel_size: 1 }", threads);
  b::Measure("Scale", "scale_param { bias_term: true }", threads);
  b::Measure("InnerProduct", "inner_product_param { num_output: 8 }", threads);
  b::Measure("Convolution", "convolution_param { num_output: 8 kernel_size: 1 }", threads);
  return 0;
}
