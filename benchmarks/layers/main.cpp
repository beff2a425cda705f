// Times single convolution layers: our Winograd kernels against oneDNN's direct ones, interleaved,
// after checking the results of both. Prints GFLOP/s, which always count the direct algorithm's
// operations.
//   carafe_layers [--filter=vgg16] [--threads=1] [--blocks=7]
#include <fmt/format.h>
#include <omp.h>
#include <sys/mman.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "benchmarks/layers/check.h"
#include "benchmarks/layers/direct.h"
#include "benchmarks/layers/shapes.h"
#include "carafe/base/random.h"
#include "carafe/kernels/winograd.h"

namespace carafe::benchmark {
namespace {

constexpr double kErrorBound = 3e-5;  // of the largest value; more is a wrong answer
constexpr double kLeastSeconds = 0.01;

// The time that this thread computed if it is alone, for the machine may be busy; else the wall's.
double Now(int threads) {
  timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class Buffer {  // in huge pages where the system gives them
 public:
  explicit Buffer(size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    data_ = static_cast<float*>(std::aligned_alloc(kPage, bytes_));
    if (data_ == nullptr) throw std::bad_alloc();
    madvise(data_, bytes_, MADV_HUGEPAGE);
    std::fill_n(data_, bytes_ / sizeof(float), 0.0f);
  }
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  float* data() { return data_; }
  void Randomise(uint64_t seed, size_t count, double scale, bool positive) {
    RandomSequence random(seed);
    for (size_t i = 0; i < count; ++i) {
      const double value = scale * random.NextGaussian();
      data_[i] = static_cast<float>(positive ? std::max(0.0, value) : value);
    }
  }

 private:
  static constexpr size_t kPage = size_t{1} << 21;
  size_t bytes_;
  float* data_;
};

// Seconds of each block.
struct Timing {
  std::vector<double> seconds;
  double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

struct Contender {
  std::string name;
  std::array<std::function<void()>, 3> directions;
  std::array<Timing, 3> timings;
  Errors errors;
  double Total(double (Timing::*value)() const) const {
    return (timings[0].*value)() + (timings[1].*value)() + (timings[2].*value)();
  }
};

class Layer {
 public:
  Layer(const NamedShape& named, int threads) : name_(named.name), s_(named.shape) {
    const size_t src = static_cast<size_t>(s_.images * s_.in_channels * s_.in_h * s_.in_w);
    const size_t dst = static_cast<size_t>(s_.images * s_.out_channels * s_.out_h * s_.out_w);
    const size_t weights = static_cast<size_t>(s_.weight_count());
    for (const size_t count : {src, weights, dst, dst, src, weights}) {
      buffers_.push_back(std::make_unique<Buffer>(count * sizeof(float)));
    }
    At(kSrc).Randomise(1, src, 1, true);
    const auto fan_in = static_cast<double>(s_.group_in_channels() * s_.kernel_h * s_.kernel_w);
    At(kWeights).Randomise(2, weights, std::sqrt(2 / fan_in), false);
    At(kDDst).Randomise(3, dst, 1, false);

    direct_ = MakeDirect(s_);
    if (direct_ != nullptr) {
      direct_->Set(Data(kSrc), Data(kWeights), Data(kDDst));
      Add("direct", {[this] { direct_->Forward(); }, [this] { direct_->BackwardData(); },
                     [this] { direct_->BackwardWeights(); }});
    }
    const std::pair<const char*, WinogradTile> tiles[] = {{"F(4x4,3x3)", WinogradTile::kF4x4_3x3},
                                                          {"F(2x2,3x3)", WinogradTile::kF2x2_3x3},
                                                          {"F(2x2,5x5)", WinogradTile::kF2x2_5x5},
                                                          {"F(4x4,5x5)", WinogradTile::kF4x4_5x5}};
    for (const auto& [name, tile] : tiles) {
      if (!WinogradConvolution::Supports(s_, tile)) continue;
      auto ours = std::make_shared<WinogradConvolution>(s_, tile);
      auto scratch = std::make_shared<Buffer>(ours->ScratchBytes(threads));
      Add(name, {[=, this] {
                   ours->Forward(threads, Data(kSrc), Data(kWeights), nullptr, false, Data(kDst),
                                 scratch->data());
                 },
                 [=, this] {
                   ours->BackwardData(threads, Data(kDDst), Data(kWeights), Data(kDSrc),
                                      scratch->data());
                 },
                 [=, this] {
                   ours->BackwardWeights(threads, Data(kSrc), Data(kDDst), Data(kDWeights),
                                         scratch->data());
                 }});
    }
  }

  bool CheckAll() {
    bool good = true;
    for (Contender& c : contenders_) {
      std::fill_n(Data(kDWeights), s_.weight_count(), 0.0f);
      for (const auto& run : c.directions) run();
      if (c.name == "direct") direct_->Get(Data(kDst), Data(kDSrc), Data(kDWeights));
      c.errors = Check(s_, Data(kSrc), Data(kWeights), Data(kDDst), Data(kDst), Data(kDSrc),
                       Data(kDWeights));
      good = good && c.errors.forward < kErrorBound && c.errors.backward_data < kErrorBound &&
             c.errors.backward_weights < kErrorBound;
    }
    return good;
  }

  void TimeBlock(int threads) {
    for (size_t d = 0; d < 3; ++d) {
      for (Contender& c : contenders_) {
        int runs = 0;
        const double start = Now(threads);
        double elapsed = 0;
        do {
          c.directions[d]();
          ++runs;
          elapsed = Now(threads) - start;
        } while (elapsed < kLeastSeconds);
        c.timings[d].seconds.push_back(elapsed / runs);
      }
    }
  }

  void Print() const {
    const auto rates = [this](const Contender& c, double (Timing::*value)() const) {
      std::string text;
      for (const Timing& t : c.timings) {
        text += fmt::format("{}{:.0f}", text.empty() ? "" : "/", s_.flops() / (t.*value)() * 1e-9);
      }
      return text;
    };
    fmt::print("| {} | {}x{}, {}->{} | ", name_, s_.images, s_.in_h, s_.in_channels,
               s_.out_channels);
    const bool compared = direct_ != nullptr;
    for (const Contender& c : contenders_) {
      fmt::print("{}: {} ({})", c.name, rates(c, &Timing::best), rates(c, &Timing::median));
      if (compared && c.name != "direct") {
        fmt::print(" = {:.2f} ({:.2f})x",
                   contenders_[0].Total(&Timing::best) / c.Total(&Timing::best),
                   contenders_[0].Total(&Timing::median) / c.Total(&Timing::median));
      }
      fmt::print(", error {:.1e} {:.1e} {:.1e} | ", c.errors.forward, c.errors.backward_data,
                 c.errors.backward_weights);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }

 private:
  enum Role { kSrc, kWeights, kDDst, kDst, kDSrc, kDWeights };
  Buffer& At(Role role) { return *buffers_[role]; }
  float* Data(Role role) { return At(role).data(); }
  void Add(const char* name, std::array<std::function<void()>, 3> directions) {
    contenders_.push_back({name, std::move(directions), {}, {}});
  }
  const std::string name_;
  const ConvolutionShape s_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Direct> direct_;
  std::vector<Contender> contenders_;
};

int Main(int argc, char** argv) {
  CLI::App app("Times single convolution layers, after checking their results.");
  std::string filter;
  int threads = 1, blocks = 7;
  app.add_option("--filter", filter, "only shapes whose name contains this");
  app.add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  app.add_option("--blocks", blocks, "interleaved measurements of each")
      ->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  omp_set_num_threads(threads);
  fmt::print(
      "GFLOP/s forward/backward data/backward weights: best (median) of {}; {} thread(s);\n"
      "ratio of the time of all three to oneDNN's direct; error / largest value\n",
      blocks, threads);
  int wrong = 0;
  for (const NamedShape& shape : Shapes(filter)) {
    Layer layer(shape, threads);
    if (!layer.CheckAll()) {
      fmt::print("| {} | WRONG ANSWER, not timed |\n", shape.name);
      ++wrong;
      continue;
    }
    for (int b = 0; b < blocks; ++b) layer.TimeBlock(threads);
    layer.Print();
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace carafe::benchmark

int main(int argc, char** argv) { return carafe::benchmark::Main(argc, argv); }
