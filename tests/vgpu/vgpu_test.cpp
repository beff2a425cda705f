// The virtual GPU itself: it must notice what a real GPU would punish or hide.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "carafe/core/blob.h"
#include "carafe/kernels/launch.h"
#include "tests/vgpu/vgpu.h"

namespace carafe {
namespace {

struct AddOne {
  const float* x;
  float* y;
  void operator()(int64_t i) const { y[i] = x[i] + 1; }
};

// y[i] = y[i - 1] + 1: what one index needs, another makes.
struct Chain {
  float* y;
  void operator()(int64_t i) const { y[i] = i == 0 ? 1 : y[i - 1] + 1; }
};

class VirtualGpu : public ::testing::Test {
 protected:
  VirtualGpu() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    vgpu::SetFaults("");
    vgpu::SetSeed(0);  // nothing runs before the host waits
    cudaSetDevice(0);
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    cudaMalloc(reinterpret_cast<void**>(&memory_), kCount * sizeof(float));
  }
  ~VirtualGpu() override {
    cudaStreamDestroy(stream_);
    cudaFree(memory_);
  }
  std::vector<float> Read(const float* from) {
    std::vector<float> values(kCount);
    cudaMemcpyAsync(values.data(), from, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream_);
    cudaStreamSynchronize(stream_);
    return values;
  }

  static constexpr int kCount = 100;
  cudaStream_t stream_ = nullptr;
  float* memory_ = nullptr;
};
using VirtualGpuDeathTest = VirtualGpu;

TEST_F(VirtualGpu, HandsOutMemoryThatIsNotANumber) {
  for (const float value : Read(memory_)) EXPECT_TRUE(std::isnan(value));
}

TEST_F(VirtualGpu, ReadsTheSourceOfACopyWhenTheCopyRuns) {
  std::vector<float> source(kCount, 1.0f);
  cudaMemcpyAsync(memory_, source.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream_);
  source.assign(kCount, 2.0f);
  EXPECT_EQ(Read(memory_), std::vector<float>(kCount, 2.0f));
}

TEST_F(VirtualGpu, WritesToTheHostOnlyWhenTheHostWaits) {
  std::vector<float> values(kCount, 5.0f);
  cudaMemsetAsync(memory_, 0, kCount * sizeof(float), stream_);
  cudaMemcpyAsync(values.data(), memory_, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream_);
  EXPECT_EQ(values, std::vector<float>(kCount, 5.0f));
  cudaStreamSynchronize(stream_);
  EXPECT_EQ(values, std::vector<float>(kCount, 0.0f));
}

TEST_F(VirtualGpu, AnEventIsDoneWhenWhatIsBeforeItHasRunAndNoLater) {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);  // never recorded
  std::vector<float> first(kCount, 5.0f), second(kCount, 5.0f);
  cudaMemsetAsync(memory_, 0, kCount * sizeof(float), stream_);
  cudaMemcpyAsync(first.data(), memory_, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream_);
  cudaEventRecord(event, stream_);
  cudaMemcpyAsync(second.data(), memory_, kCount * sizeof(float), cudaMemcpyDeviceToHost, stream_);
  cudaEventSynchronize(event);
  EXPECT_EQ(first[0], 0.0f);
  EXPECT_EQ(second[0], 5.0f);
  cudaStreamSynchronize(stream_);  // before `second` goes
  EXPECT_EQ(second[0], 0.0f);
  cudaEventDestroy(event);
}

// Two streams without an event between them: some seeds run the second first.
TEST_F(VirtualGpu, RunsStreamsInEveryOrderThatEventsPermit) {
  cudaStream_t other = nullptr;
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  bool first_was_last = false, second_was_last = false;
  for (uint64_t seed = 1; seed < 50; ++seed) {
    vgpu::SetSeed(seed);
    const std::vector<float> one(kCount, 1.0f), two(kCount, 2.0f);
    cudaMemcpyAsync(memory_, one.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, stream_);
    cudaMemcpyAsync(memory_, two.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, other);
    cudaStreamSynchronize(other);
    cudaStreamSynchronize(stream_);
    (Read(memory_)[0] == 1.0f ? first_was_last : second_was_last) = true;
  }
  EXPECT_TRUE(first_was_last);
  EXPECT_TRUE(second_was_last);
  cudaStreamDestroy(other);
}

TEST_F(VirtualGpu, RunsTheIndicesOfAKernelInMoreThanOneOrder) {
  Stream stream(CudaDevice(0));
  bool forwards = false, backwards = false;
  for (uint64_t seed = 1; seed < 20; ++seed) {
    vgpu::SetSeed(seed);
    stream.Zero(memory_, kCount);
    Launch(stream, kCount, Chain{memory_});
    stream.Synchronize();
    (Read(memory_)[kCount - 1] == kCount ? forwards : backwards) = true;
  }
  EXPECT_TRUE(forwards);
  EXPECT_TRUE(backwards);
}

TEST_F(VirtualGpu, RefusesALaunchIntoAStreamOfAnotherDevice) {
  cudaSetDevice(1);
  carafe_vgpu_launch(stream_, "AddOne", ForEach<AddOne>, &memory_, sizeof memory_, 1);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaSetDevice(0);
}

TEST_F(VirtualGpuDeathTest, ReportsHostCodeThatTouchesDeviceMemory) {
  EXPECT_DEATH(memory_[3] = 1,
               "host code reads or writes device memory: byte 12 of an allocation of "
               "400 bytes on device 0");
  Stream stream(CudaDevice(0));
  Blob<float> blob({7});
  const float* data = blob.data(stream);
  EXPECT_DEATH(std::fprintf(stderr, "%g", data[1]),
               "byte 4 of an allocation of 28 bytes on device 0");
}

TEST_F(VirtualGpuDeathTest, ReportsAKernelWithAHostPointer) {
  Stream stream(CudaDevice(0));
  const std::vector<float> x(kCount);
  EXPECT_DEATH(Launch(stream, kCount, AddOne{x.data(), memory_}),
               "AddOne.*: byte 0 of the functor is the address .* not in the memory of device 0");
}

TEST_F(VirtualGpuDeathTest, ReportsAKernelWithAPointerToAnotherDevice) {
  Stream stream(CudaDevice(1));
  EXPECT_DEATH(Launch(stream, kCount, Chain{memory_}), "not in the memory of device 1");
}

TEST_F(VirtualGpuDeathTest, ReportsWritesBehindAnAllocation) {
  Stream stream(CudaDevice(0));
  EXPECT_DEATH(
      {
        Launch(stream, kCount + 1, Chain{memory_});
        stream.Synchronize();
        cudaFree(memory_);
      },
      "written behind an allocation of 400 bytes");
}

TEST_F(VirtualGpuDeathTest, ReportsWritesToFreedMemory) {
  Stream stream(CudaDevice(0));
  EXPECT_DEATH(
      {
        Launch(stream, kCount, Chain{memory_});
        cudaFree(memory_);
        stream.Synchronize();
        cudaMalloc(reinterpret_cast<void**>(&memory_), kCount * sizeof(float));
      },
      "written after it was freed");
}

TEST_F(VirtualGpuDeathTest, ReportsCopiesBeyondAnAllocationAndOfTheWrongKind) {
  std::vector<float> host(2 * kCount);
  const auto copy = [&](void* to, const void* from, size_t count, cudaMemcpyKind kind) {
    cudaMemcpyAsync(to, from, count * sizeof(float), kind, stream_);
  };
  EXPECT_DEATH(copy(memory_, host.data(), kCount + 1, cudaMemcpyHostToDevice),
               "do not lie in one allocation");
  EXPECT_DEATH(copy(host.data(), memory_ + 1, kCount, cudaMemcpyDeviceToHost),
               "do not lie in one allocation");
  EXPECT_DEATH(copy(memory_, memory_, kCount, cudaMemcpyHostToDevice), "host memory is expected");
  EXPECT_DEATH(copy(memory_, host.data(), kCount, cudaMemcpyDeviceToDevice),
               "do not lie in one allocation");
}

TEST_F(VirtualGpuDeathTest, HasNoDefaultStream) {
  EXPECT_DEATH(cudaMemsetAsync(memory_, 0, 4, nullptr), "in the default stream");
}

}  // namespace
}  // namespace carafe
