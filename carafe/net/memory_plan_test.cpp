// Blobs that share memory over time: the same results, bit by bit, with less memory.
#include "carafe/net/memory_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "carafe/net/net.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;

std::string Layer(const char* type, const std::string& name, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  std::string bottoms;
  for (size_t begin = 0; begin < bottom.size();) {
    const size_t end = std::min(bottom.find(' ', begin), bottom.size());
    bottoms += fmt::format(" bottom: \"{}\"", bottom.substr(begin, end - begin));
    begin = end + 1;
  }
  return fmt::format("layer {{ name: \"{}\" type: \"{}\"{} top: \"{}\" {} }}\n", name, type,
                     bottoms, top, more);
}

std::string Conv(const std::string& name, const std::string& bottom, int outputs, int kernel) {
  return Layer("Convolution", name, bottom, name,
               fmt::format("convolution_param {{ num_output: {} kernel_size: {} pad: {} bias_term: "
                           "false weight_filler {{ type: \"xavier\" }} }}",
                           outputs, kernel, kernel / 2));
}

// BatchNorm, Scale and maybe ReLU in place.
std::string Normalised(const std::string& blob, bool relu) {
  std::string text =
      Layer("BatchNorm", "bn_" + blob, blob, blob) +
      Layer("Scale", "scale_" + blob, blob, blob,
            "scale_param { bias_term: true filler { type: \"uniform\" min: 0.5 max: 1.5 } "
            "bias_filler { type: \"uniform\" min: -0.5 max: 0.5 } }");
  if (relu) text += Layer("ReLU", "relu_" + blob, blob, blob);
  return text;
}

std::string Inputs(int batch) {
  return fmt::format(
      "name: \"mixed\" layer {{ name: \"in\" type: \"Input\" top: \"x\" top: \"label\" input_param "
      "{{ shape {{ dim: {0} dim: 3 dim: 16 dim: 14 }} shape {{ dim: {0} }} }} }}\n",
      batch);
}

// A residual block in place, an inception of odd widths, LRN, all poolings, activations out of
// place, views, a loss in the middle, and scores that two layers read.
std::string Mixed() {
  return Inputs(3) + Conv("c1", "x", 16, 3) + Normalised("c1", true) + Conv("c2", "c1", 16, 3) +
         Normalised("c2", false) + Layer("Eltwise", "sum", "c2 c1", "sum") +
         Layer("ReLU", "sum_relu", "sum", "sum") +
         Layer("LRN", "lrn", "sum", "lrn", "lrn_param { local_size: 3 alpha: 0.1 }") +
         Layer("Pooling", "max", "lrn", "max", "pooling_param { kernel_size: 3 stride: 2 }") +
         Conv("i1", "max", 12, 1) + Layer("ReLU", "i1_relu", "i1", "i1") +
         Conv("i3", "max", 20, 3) + Layer("ReLU", "i3_relu", "i3", "i3_out") +
         Layer("Concat", "cat", "i1 i3_out", "cat") +
         Layer("BatchNorm", "bn_cat", "cat", "bn_cat") +
         Layer("PReLU", "prelu", "bn_cat", "prelu") +
         Layer("Slice", "slice", "prelu", "s0\" top: \"s1", "slice_param { slice_point: 16 }") +
         Layer("Sigmoid", "sigmoid", "s0", "s0") + Layer("TanH", "tanh", "s1", "s1_out") +
         Layer("InnerProduct", "aux", "s0", "aux",
               "inner_product_param { num_output: 5 weight_filler { type: \"xavier\" } }") +
         Layer("SoftmaxWithLoss", "aux_loss", "aux label", "aux_loss", "loss_weight: 0.3") +
         Layer("Pooling", "ave", "s1_out", "ave",
               "pooling_param { pool: AVE kernel_size: 2 stride: 2 }") +
         Layer("Flatten", "flat", "ave", "flat") + Layer("Dropout", "drop", "flat", "flat") +
         Layer("InnerProduct", "ip", "flat", "ip",
               "inner_product_param { num_output: 5 weight_filler { type: \"xavier\" } }") +
         Layer("Accuracy", "accuracy", "ip label", "accuracy") +
         Layer("SoftmaxWithLoss", "loss", "ip label", "loss");
}

template <typename T>
struct Running {
  Running(const std::string& text, bool share, bool fuse, Phase phase = TRAIN)
      : net(ParseNetSpec(text, "n.prototxt"), StateOf(phase)) {
    net.SetPlan({}, fuse);
    net.Initialise(stream, 1);
    pool->set_poison(true);
    if (share) net.ShareMemory(MemorySharing::kTraining, pool);
  }
  static NetState StateOf(Phase phase) {
    NetState state;
    state.set_phase(phase);
    return state;
  }
  void Feed(int64_t batch) {
    Blob<T>&x = *net.FindBlob("x"), &label = *net.FindBlob("label");
    x.Reshape(x.shape().With(0, batch));
    label.Reshape({batch});
    std::vector<T> values, labels;
    for (int64_t i = 0; i < x.count(); ++i) values.push_back(static_cast<T>(std::sin(7 * i)));
    for (int64_t i = 0; i < batch; ++i) labels.push_back(static_cast<T>(i % 5));
    x.SetData(stream, values);
    label.SetData(stream, labels);
  }
  std::vector<std::vector<T>> Step(int64_t batch) {
    Feed(batch);
    net.ClearParamDiffs(stream);
    const double loss = net.Forward(run);
    std::vector<std::vector<T>> all = {{static_cast<T>(loss)}};
    for (const int id : net.output_ids()) {
      all.push_back(net.blobs()[static_cast<size_t>(id)]->DataToHost(stream));
    }
    net.Backward(run);
    for (const Param<T>& param : net.params()) {
      all.push_back(param.blob->DataToHost(stream));
      all.push_back(param.blob->DiffToHost(stream));
    }
    ++run.pass.index;
    return all;
  }

  Stream stream;
  RunContext run{.stream = stream};
  std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>();
  Net<T> net;
};

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
void ExpectTheSameBits(const std::string& text, Phase phase) {
  Running<T> apart(text, false, false, phase), shared(text, true, false, phase);
  for (const int64_t batch : {3, 3, 7, 1, 7}) {  // grows and shrinks
    const auto expected = apart.Step(batch), got = shared.Step(batch);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(SameBits(got[i], expected[i])) << i;
    EXPECT_EQ(shared.pool->in_use(), 0u);
  }
  EXPECT_LT(shared.pool->peak(), shared.net.memory_plan().data_bytes * 7 / 3 +
                                     shared.net.memory_plan().diff_bytes * 7 / 3);
}

TEST(SharedMemory, GivesTheSameBitsAtAnyBatch) { ExpectTheSameBits<float>(Mixed(), TRAIN); }
TEST(SharedMemory, GivesTheSameBitsInDouble) { ExpectTheSameBits<double>(Mixed(), TRAIN); }
TEST(SharedMemory, GivesTheSameBitsWithGlobalStatistics) {
  ExpectTheSameBits<float>(Mixed(), TEST);
}

// BatchNorm, Scale and ReLU in one; nobody sees more than the results.
TEST(SharedMemory, GivesWithFusionsWhatDoubleGivesWithout) {
  for (const Phase phase : {TRAIN, TEST}) {
    Running<double> plain(Mixed(), false, false, phase);
    Running<float> fused(Mixed(), true, true, phase);
    fused.net.SetPlan({.asked = "direct"});
    EXPECT_EQ(fused.net.fusions().size(), 4u);  // both norms, the sum, i1
    for (const int64_t batch : {3, 5}) {
      const auto expected = plain.Step(batch);
      const auto got = fused.Step(batch);
      for (size_t i = 0; i < got.size(); ++i) {
        double size = 0, distance = 0;  // of the whole, for a maximum may lie elsewhere in float
        for (size_t k = 0; k < got[i].size(); ++k) {
          size += std::pow(expected[i][k], 2);
          distance += std::pow(got[i][k] - expected[i][k], 2);
        }
        EXPECT_LE(std::sqrt(distance), 5e-3 * std::sqrt(size) + 1e-6) << i;
      }
      EXPECT_EQ(fused.pool->in_use(), 0u);
    }
  }
}

TEST(SharedMemory, IsThatOfTheTwoLargestNeighboursInAForwardPass) {
  const std::string text = Inputs(4) + Conv("a", "x", 32, 3) + Conv("b", "a", 16, 3) +
                           Conv("c", "b", 16, 3) + Conv("d", "c", 16, 3) + Conv("e", "d", 8, 3);
  Running<float> net(text, false, true, TEST);
  net.net.ShareMemory(MemorySharing::kForward, net.pool);
  const size_t plane = 4 * 16 * 14 * sizeof(float);
  const MemoryPlan& plan = net.net.memory_plan();
  EXPECT_EQ(plan.data_bytes, plane * (32 + 3 * 16));  // e is the output
  EXPECT_EQ(plan.diff_bytes, 0u);
  EXPECT_NEAR(static_cast<double>(plan.live_bytes), static_cast<double>(plane * (32 + 16)), 300);
  EXPECT_EQ(plan.pool_bytes, plan.live_bytes);
}

TEST(SharedMemory, KeepsOutputsAndWhatItIsToldTo) {
  Running<float> apart(Mixed(), false, true, TEST), shared(Mixed(), false, true, TEST);
  shared.net.ShareMemory(MemorySharing::kForward, shared.pool, {"max", "i3_out"});
  for (Running<float>* net : {&apart, &shared}) {
    net->net.SetPlan({.asked = "direct"});  // statistics of 0 make rounding errors large
    net->Feed(3);
    net->net.Forward(net->run);
  }
  for (const char* name : {"max", "i3_out", "accuracy", "loss", "x"}) {
    const auto expected = apart.net.FindBlob(name)->DataToHost(apart.stream);
    const auto got = shared.net.FindBlob(name)->DataToHost(shared.stream);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-3) << name;
  }
}

// A training net and its test net take turns.
TEST(SharedMemory, IsSharedByNetsThatTakeTurns) {
  Running<float> alone(Mixed(), true, true), train(Mixed(), true, true),
      test(Mixed(), false, true, TEST);
  test.net.ShareMemory(MemorySharing::kForward, train.pool);
  for (int step = 0; step < 3; ++step) {
    const auto expected = alone.Step(3), got = train.Step(3);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(SameBits(got[i], expected[i])) << i;
    test.Feed(2);
    EXPECT_TRUE(std::isfinite(test.net.Forward(test.run)));
  }
  EXPECT_EQ(train.pool->peak(), alone.pool->peak());
}

TEST(SharedMemory, RefusesPartsOfAPass) {
  Running<float> net(Mixed(), true, true);
  net.Feed(3);
  EXPECT_THAT(ErrorText<ConfigError>([&] { net.net.ForwardFromTo(net.run, 4, 8); }),
              HasSubstr("start at layer 4"));
  net.net.Forward(net.run);
  EXPECT_THAT(ErrorText<ConfigError>([&] { net.net.BackwardFromTo(net.run, 8, 0); }),
              HasSubstr("as a whole"));
  net.net.Backward(net.run);
  EXPECT_THAT(ErrorText<ConfigError>([&] { net.net.Backward(net.run); }), HasSubstr("once"));
  net.net.ShareMemory(MemorySharing::kNone, nullptr);
  net.net.Forward(net.run);
  net.net.BackwardFromTo(net.run, static_cast<int>(net.net.layers().size()) - 1, 5);
}

}  // namespace
}  // namespace carafe
