// Training takes no memory once it runs: the C library's allocator is replaced by one that counts
// (glibc only, and not where a sanitizer has replaced it already).
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "carafe/comm/group.h"
#include "carafe/solvers/solver.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CARAFE_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define CARAFE_COUNTS_ALLOCATIONS 0
#endif
#endif
#if !defined(CARAFE_COUNTS_ALLOCATIONS)
#if defined(__GLIBC__)
#define CARAFE_COUNTS_ALLOCATIONS 1
#else
#define CARAFE_COUNTS_ALLOCATIONS 0
#endif
#endif

namespace {

constexpr int kMaxFrames = 16;
std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;
void* first_frames[kMaxFrames];  // of the first allocation that was counted
int first_frame_count = 0;

// OpenBLAS takes and frees a list of its jobs where a product has several threads.
[[maybe_unused]] bool IsOpenBlas(void* code) {
  Dl_info info;
  return dladdr(code, &info) != 0 && std::strstr(info.dli_fname, "openblas") != nullptr;
}

[[maybe_unused]] void NoteAllocation(void* caller) {
  if (!counting.load(std::memory_order_relaxed) || IsOpenBlas(caller)) return;
  if (allocations.fetch_add(1) == 0) first_frame_count = backtrace(first_frames, kMaxFrames);
}

}  // namespace

#if CARAFE_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  NoteAllocation(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  NoteAllocation(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  NoteAllocation(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  NoteAllocation(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace carafe {
namespace {

// Those of three steps, after three to warm up. Updates are early if nothing is clipped.
int64_t AllocationsOfSteps(const std::string& net, const std::string& algorithm, int threads,
                           bool early) {
  Stream stream(CpuDevice(), threads);
  Group group;
  Solver<float> solver(
      ParseSolverSpec(fmt::format("base_lr: 0.001 lr_policy: \"inv\" gamma: 0.1 power: 0.75 "
                                  "momentum: 0.9 weight_decay: 0.0005 {} net_param {{ {} }}",
                                  early ? "" : "clip_gradients: 10", net),
                      ""),
      stream, {.share_memory = early});
  solver.net().SetPlan({.asked = algorithm});
  solver.Connect("allreduce", group, {.bucket_bytes = 1 << 20});
  const auto steps = [&] {
    for (int i = 0; i < 3; ++i) solver.Step();
    solver.Drain();
  };
  steps();
  backtrace(first_frames, kMaxFrames);  // it takes memory the first time, too
  allocations = 0;
  counting = true;
  steps();
  counting = false;
  return allocations;
}

void ExpectNone(const std::string& net, const std::string& algorithm = "winograd") {
#if !CARAFE_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "allocations cannot be counted in this build";
#endif
  for (const auto& [threads, early] : {std::pair(1, false), {2, false}, {1, true}, {2, true}}) {
    const int64_t found = AllocationsOfSteps(net, algorithm, threads, early);
    EXPECT_EQ(found, 0) << threads << " threads, " << algorithm << (early ? ", early updates" : "");
    if (found > 0) {
      std::puts("the first of them:");
      std::fflush(stdout);
      backtrace_symbols_fd(first_frames, first_frame_count, 1);
    }
  }
}

std::string Input(const std::string& shape, const std::string& labels) {
  return fmt::format(
      "layer {{ name: \"in\" type: \"Input\" top: \"x\" top: \"label\" input_param {{ shape {{ {} "
      "}} "
      "shape {{ {} }} }} }} ",
      shape, labels);
}

std::string Layer(const std::string& type, const std::string& name, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  return fmt::format("layer {{ name: \"{}\" type: \"{}\" bottom: \"{}\" top: \"{}\" {} }} ", name,
                     type, bottom, top, more);
}

std::string Convolution(const std::string& name, const std::string& bottom, int outputs, int kernel,
                        int pad) {
  return Layer("Convolution", name, bottom, name,
               fmt::format("convolution_param {{ num_output: {} kernel_size: {} pad: {} "
                           "weight_filler {{ type: \"xavier\" }} }}",
                           outputs, kernel, pad));
}

std::string InnerProduct(const std::string& name, const std::string& bottom, int outputs,
                         int axis = 1) {
  return Layer("InnerProduct", name, bottom, name,
               fmt::format("inner_product_param {{ num_output: {} axis: {} weight_filler {{ type: "
                           "\"xavier\" }} }}",
                           outputs, axis));
}

std::string Pooling(const std::string& name, const std::string& bottom, const char* method) {
  return Layer("Pooling", name, bottom, name,
               fmt::format("pooling_param {{ pool: {} kernel_size: 2 stride: 2 }}", method));
}

std::string Loss(const std::string& bottom, int axis = 1) {
  return fmt::format(
      "layer {{ name: \"loss\" type: \"SoftmaxWithLoss\" bottom: \"{}\" bottom: \"label\" top: "
      "\"loss\" softmax_param {{ axis: {} }} }} ",
      bottom, axis);
}

std::string LeNet() {
  return Input("dim: 8 dim: 1 dim: 28 dim: 28", "dim: 8") + Convolution("conv1", "x", 20, 5, 0) +
         Pooling("pool1", "conv1", "MAX") + Convolution("conv2", "pool1", 50, 5, 0) +
         Pooling("pool2", "conv2", "MAX") + InnerProduct("ip1", "pool2", 500) +
         Layer("ReLU", "relu1", "ip1", "ip1") +
         Layer("Dropout", "drop1", "ip1", "ip1", "dropout_param { dropout_ratio: 0.5 }") +
         InnerProduct("ip2", "ip1", 10) + Loss("ip2");
}

TEST(SteadyState, OfLeNetTakesNoMemory) {
  ExpectNone(LeNet());
  ExpectNone(LeNet(), "gemm");
}

TEST(SteadyState, OfResidualsWithBatchNormTakesNoMemory) {
  const std::string net =
      Input("dim: 4 dim: 3 dim: 16 dim: 16", "dim: 4") + Convolution("conv1", "x", 16, 3, 1) +
      Layer("BatchNorm", "bn1", "conv1", "conv1") +
      Layer("Scale", "scale1", "conv1", "conv1", "scale_param { bias_term: true }") +
      Layer("ReLU", "relu1", "conv1", "conv1") + Convolution("conv2", "conv1", 16, 3, 1) +
      Layer("BatchNorm", "bn2", "conv2", "bn2") +
      Layer("Scale", "scale2", "bn2", "scale2", "scale_param { bias_term: true }") +
      Layer("Eltwise", "sum", "conv1", "sum", "bottom: \"scale2\"") +
      Layer("ReLU", "relu2", "sum", "sum") + Pooling("pool", "sum", "AVE") +
      InnerProduct("ip", "pool", 10) + Loss("ip");
  ExpectNone(net);
  ExpectNone(net, "gemm");
}

TEST(SteadyState, OfLargeMatricesTakesNoMemory) {
  for (const int rows : {4, 40}) {  // two ways to compute their gradients in parts
    ExpectNone(Input(fmt::format("dim: {} dim: 1024", rows), fmt::format("dim: {}", rows)) +
               InnerProduct("ip1", "x", 1024) + InnerProduct("ip2", "ip1", 10) + Loss("ip2"));
  }
}

TEST(SteadyState, OfAnLstmTakesNoMemory) {
  ExpectNone(
      "layer { name: \"in\" type: \"Input\" top: \"x\" top: \"cont\" top: \"label\" input_param { "
      "shape { dim: 6 dim: 8 dim: 24 } shape { dim: 6 dim: 8 } shape { dim: 6 dim: 8 } } } " +
      Layer("LSTM", "lstm", "x", "lstm",
            "bottom: \"cont\" recurrent_param { num_output: 40 weight_filler { type: \"uniform\" "
            "min: -0.1 max: 0.1 } }") +
      InnerProduct("ip", "lstm", 12, 2) + Loss("ip", 2));
}

}  // namespace
}  // namespace carafe
