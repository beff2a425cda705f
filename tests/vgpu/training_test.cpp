// A training step on the virtual GPU: what it allocates, launches and waits for.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"
#include "tests/vgpu/vgpu.h"

namespace carafe {
namespace {

constexpr const char* kLeNet = R"(
  base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" max_iter: 100 random_seed: 3
  net_param {
    layer { name: "in" type: "DummyData" top: "x" top: "label" dummy_data_param {
      shape { dim: 8 dim: 1 dim: 28 dim: 28 } shape { dim: 8 }
      data_filler { type: "gaussian" } data_filler { type: "constant" value: 3 } } }
    layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
      convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
    layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
      pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
    layer { name: "relu" type: "ReLU" bottom: "pool" top: "pool" }
    layer { name: "drop" type: "Dropout" bottom: "pool" top: "pool" }
    layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
      inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
    layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
  })";

// After four steps the largest copy has been in each of a stream's page-locked buffers.
constexpr int kWarmUp = 6;

class TrainingOnAVirtualGpu : public ::testing::TestWithParam<int> {
 protected:
  TrainingOnAVirtualGpu() {
    vgpu::SetFaults("");
    cudaGetLastError();  // of an earlier test
    vgpu::SetSeed(static_cast<uint64_t>(GetParam()));
  }
};

// A solver by itself, without ranks, as `carafe train` runs it: parameters are updated in the
// backward pass.
class Training {
 public:
  Training() { solver_.Connect("allreduce", group_, {.bucket_bytes = 1 << 20}); }
  void Step(int times) {
    for (int i = 0; i < times; ++i) solver_.Step();
    solver_.Drain();
  }

 private:
  Stream stream_{CudaDevice(0)};
  Group group_;
  Solver<float> solver_{ParseSolverSpec(kLeNet, "solver.prototxt"), stream_,
                        SolverOptions{.share_memory = true}};
};

TEST_P(TrainingOnAVirtualGpu, AllocatesNoDeviceMemoryInAStep) {
  Training training;
  training.Step(kWarmUp);
  const vgpu::Counts before = vgpu::GetCounts();
  training.Step(5);
  const vgpu::Counts after = vgpu::GetCounts();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.host_bytes, before.host_bytes);
}

// The host waits for what it reads: the check of the labels, the loss, and the sum of all losses.
TEST_P(TrainingOnAVirtualGpu, WaitsOnlyForValuesThatTheHostReads) {
  vgpu::SetSeed(0);  // every wait finds work
  Training training;
  training.Step(kWarmUp);
  const vgpu::Counts before = vgpu::GetCounts();
  constexpr int kSteps = 5;
  training.Step(kSteps);
  const vgpu::Counts after = vgpu::GetCounts();
  EXPECT_GT(after.launches - before.launches, kSteps * 10);
  EXPECT_LE(after.waits - before.waits, kSteps * 3);
}

TEST_P(TrainingOnAVirtualGpu, FreesAllDeviceMemory) {
  int64_t before = 0;
  for (int i = 0; i < 3; ++i) {  // what a thread keeps is there from the first on
    Training().Step(1);
    if (i > 0) {
      EXPECT_EQ(vgpu::GetCounts().bytes, before);
    }
    before = vgpu::GetCounts().bytes;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TrainingOnAVirtualGpu, ::testing::Values(0, 1));

}  // namespace
}  // namespace carafe
