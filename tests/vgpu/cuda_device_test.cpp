// The CUDA device of core/ on the virtual GPU: what it waits for, and what it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/core/blob.h"
#include "carafe/core/gpu_status.h"
#include "carafe/kernels/gemm.h"
#include "carafe/kernels/gpu_libraries.h"
#include "carafe/kernels/math.h"
#include "tests/support/error_text.h"
#include "tests/vgpu/vgpu.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CudaDeviceTest : public ::testing::TestWithParam<int> {
 protected:
  CudaDeviceTest() {
    vgpu::SetFaults("");
    vgpu::SetSeed(static_cast<uint64_t>(GetParam()));
  }
  ~CudaDeviceTest() override { vgpu::SetFaults(""); }
};

std::vector<float> Ramp(size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_P(CudaDeviceTest, LeavesTheHostsMemoryWhenACopyReturns) {
  Stream stream(CudaDevice(0));
  constexpr int kCopies = 11;  // more than there are buffers
  std::vector<Blob<float>> blobs;
  for (int i = 0; i < kCopies; ++i) blobs.emplace_back(Shape{int64_t{50} + i});
  for (int i = 0; i < kCopies; ++i) {
    std::vector<float> values = Ramp(static_cast<size_t>(50 + i), static_cast<float>(i));
    blobs[static_cast<size_t>(i)].SetData(stream, values);
    values.assign(values.size(), -1.0f);  // the copy may still be queued
  }
  for (int i = 0; i < kCopies; ++i) {
    EXPECT_EQ(blobs[static_cast<size_t>(i)].DataToHost(stream),
              Ramp(static_cast<size_t>(50 + i), static_cast<float>(i)));
  }
}

TEST_P(CudaDeviceTest, CopiesMoreThanItsBuffersHold) {
  Stream stream(CudaDevice(0));
  Blob<float> blob({(int64_t{9} << 20) + 3});  // 36 MiB, in pieces of 4
  const std::vector<float> values = Ramp(static_cast<size_t>(blob.count()), 0.5f);
  blob.SetData(stream, values);
  EXPECT_EQ(blob.DataToHost(stream), values);
  EXPECT_LE(vgpu::GetCounts().host_bytes, int64_t{16} << 20);
}

TEST_P(CudaDeviceTest, DoesNotWaitForCopiesFromTheHost) {
  Stream stream(CudaDevice(0));
  Blob<float> blob({8});
  blob.data(stream);  // allocates
  vgpu::SetSeed(0);
  const int64_t before = vgpu::GetCounts().waits;
  for (int i = 0; i < 4; ++i) blob.SetData(stream, Ramp(8, static_cast<float>(i)));
  EXPECT_EQ(vgpu::GetCounts().waits, before);
  EXPECT_EQ(blob.DataToHost(stream), Ramp(8, 3));
}

TEST_P(CudaDeviceTest, GivesZeroedMemoryToEveryStream) {
  for (int i = 0; i < 5; ++i) {
    Stream stream(CudaDevice(0));
    Blob<float> blob({31});
    EXPECT_EQ(blob.DataToHost(stream), std::vector<float>(31, 0.0f));
    Fill(stream, 31, 2.0f, blob.mutable_data(stream));  // what the next one finds, if not zeroed
  }
}

TEST_P(CudaDeviceTest, FreesMemoryAfterTheWorkThatUsesIt) {
  Stream stream(CudaDevice(0));
  Blob<float> result({64});
  {
    Blob<float> source({64});
    source.SetData(stream, Ramp(64, 1));
    Axpy(stream, 64, 2.0f, source.data(stream), result.mutable_data(stream));
  }
  Blob<float> next({64});  // likely where `source` was
  next.SetData(stream, std::vector<float>(64, 9.0f));
  const std::vector<float> values = result.DataToHost(stream);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], 2.0f * (1 + i));
}

TEST_P(CudaDeviceTest, FreesAllItsMemory) {
  const vgpu::Counts before = vgpu::GetCounts();
  {
    Stream stream(CudaDevice(0));
    Blob<float> blob({64});
    blob.SetData(stream, Ramp(64, 1));
    blob.Reshape({100});
    EXPECT_EQ(blob.DataToHost(stream)[63], 64.0f);
    EXPECT_GT(vgpu::GetCounts().bytes, before.bytes);
  }
  EXPECT_EQ(vgpu::GetCounts().bytes, before.bytes);
  EXPECT_EQ(vgpu::GetCounts().host_bytes, before.host_bytes);
}

// A 2x3 matrix times a 3x2 one, on two devices at once: handles and current devices are per thread.
TEST_P(CudaDeviceTest, MultipliesOnTheStreamsDeviceWhateverDeviceWasUsedBefore) {
  Stream first(CudaDevice(0)), second(CudaDevice(1));
  const auto product = [](Stream& stream) {
    Blob<float> a({2, 3}), b({3, 2}), c({2, 2});
    a.SetData(stream, Ramp(6, 1));
    b.SetData(stream, Ramp(6, 1));
    Gemm<float>(stream, Op::kNone, Op::kNone, 2, 2, 3, 1, a.data(stream), b.data(stream), 0,
                c.mutable_data(stream));
    return c.DataToHost(stream);
  };
  const std::vector<float> expected = {22, 28, 49, 64};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(product(first), expected);
    EXPECT_EQ(product(second), expected);
  }
  std::thread other([&] {
    Fill(second, 1, 1.0f, Blob<float>({1}).mutable_data(second));
    EXPECT_EQ(product(second), expected);
  });
  other.join();
}

TEST_P(CudaDeviceTest, SumsWithoutTouchingDeviceMemoryFromTheHost) {
  Stream stream(CudaDevice(0));
  Blob<float> blob({10000});
  blob.SetData(stream, std::vector<float>(10000, 0.5f));
  EXPECT_EQ(SumOfAbs(stream, 10000, blob.data(stream)), 5000.0);
}

TEST_P(CudaDeviceTest, ExplainsThatMemoryIsExhausted) {
  Stream stream(CudaDevice(0));
  vgpu::SetFaults("oom@2");
  Blob<float> first({10}), second({20}), third({30});
  first.data(stream);
  EXPECT_THAT(ErrorText<DataError>([&] { second.data(stream); }),
              AllOf(HasSubstr("GPU 0: error: allocating memory (80 bytes): out of memory"),
                    HasSubstr("fix: use a smaller batch_size")));
  Fill(stream, 30, 1.0f, third.mutable_data(stream));  // work goes on
  EXPECT_EQ(third.DataToHost(stream), std::vector<float>(30, 1.0f));
}

TEST_P(CudaDeviceTest, ReportsAFaultyDeviceAtTheNextWaitAndFromThenOn) {
  for (const char* fault : {"ecc@3", "lost@3"}) {
    vgpu::SetFaults("");
    Stream stream(CudaDevice(0));
    Blob<float> blob({10});
    blob.data(stream);
    vgpu::SetFaults(fault);
    const auto work = [&] {
      for (int i = 0; i < 3; ++i) Fill(stream, 10, 1.0f, blob.mutable_data(stream));
      stream.Synchronize();
    };
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(ErrorText<DataError>(work),
                  AllOf(HasSubstr("GPU 0: error: "), HasSubstr("resume with --snapshot=auto")));
    }
    EXPECT_THAT(ErrorText<DataError>([&] { blob.DataToHost(stream); }), HasSubstr("GPU 0: error"));
    EXPECT_THROW(
        Gemm<float>(stream, Op::kNone, Op::kNone, 1, 1, 1, 1, nullptr, nullptr, 0, nullptr),
        DataError);
    Stream other(CudaDevice(1));  // the others work
    EXPECT_EQ(Blob<float>({3}).DataToHost(other), std::vector<float>(3, 0.0f));
  }
  vgpu::SetFaults("");
}

TEST_P(CudaDeviceTest, ExplainsAMissingDriver) {
  EXPECT_EQ(GetGpuStatus().problem, "");
  vgpu::SetFaults("no_driver");
  EXPECT_EQ(CudaDeviceCount(), 0);
  EXPECT_THAT(ErrorText<ConfigError>([] { CudaDevice(0); }),
              AllOf(HasSubstr("there is no GPU 0: NVIDIA's driver is missing"),
                    HasSubstr("fix: install driver")));
}

TEST_P(CudaDeviceTest, ListsTheDevicesThatThereAre) {
  EXPECT_EQ(CudaDeviceCount(), 8);
  EXPECT_THAT(CudaDevice(7).name(), AllOf(HasSubstr("GPU 7 ("), HasSubstr("test bed")));
  EXPECT_THAT(ErrorText<ConfigError>([] { CudaDevice(8); }),
              HasSubstr("there is no GPU 8; 8 can be used here"));
  ASSERT_EQ(GpuLibraries().size(), 1u);
  EXPECT_EQ(GpuLibraries()[0].version, "13.0.0");
}

// 0: as late as possible; the others in random orders.
INSTANTIATE_TEST_SUITE_P(Seeds, CudaDeviceTest, ::testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace carafe
