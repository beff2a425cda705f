// Weight gradients that a net offers as two factors instead of computing them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/kernels/gemm.h"
#include "carafe/net/net.h"

namespace carafe {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::Pointwise;

std::string Ip(const std::string& name, const std::string& from, const std::string& more = "",
               const std::string& param = "") {
  return fmt::format(
      "layer {{ name: '{0}' type: 'InnerProduct' bottom: '{1}' top: '{0}' {2} inner_product_param "
      "{{ num_output: 4 {3} weight_filler {{ type: 'gaussian' }} }} }}\n",
      name, from, more, param);
}

const std::string kNet =
    "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 5 dim: 3 } "
    "shape { dim: 5 dim: 4 } } }\n" +
    Ip("first", "x", "", "transpose: true") +
    "layer { name: 'relu' type: 'ReLU' bottom: 'first' top: 'first' }\n" +
    Ip("second", "first", "param { name: 'shared' }") +
    Ip("third", "second", "param { name: 'shared' }") +
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'third' bottom: 'y' }\n";

// Forms every gradient by one product per offer, as an exchange of factors does.
class Multiplier : public ParamEvents<double> {
 public:
  Multiplier(Net<double>& net, Stream& stream) : net_(net), stream_(stream) {
    gradients.resize(net.params().size());
  }
  void BeforeRead(int) override {}
  void GradientFinal(int param) override { final_params.push_back(param); }
  void FactorsReady(int param, const Factors<double>& f) override {
    EXPECT_EQ(std::ranges::count(final_params, param), 0) << "offered after it was final";
    std::vector<double>& gradient = At(gradients, param);
    gradient.resize(static_cast<size_t>(At(net_.params(), param).blob->count()));
    Gemm<double>(stream_, Op::kTrans, Op::kNone, f.left_width, f.right_width, f.rows, 1, f.left,
                 f.right, 1, gradient.data());
  }
  std::vector<std::vector<double>> gradients;  // by parameter
  std::vector<int> final_params;

 private:
  Net<double>& net_;
  Stream& stream_;
};

struct Running {
  explicit Running(const std::string& text, bool share_memory)
      : net(ParseNetSpec(text, "n.prototxt"), TrainState()) {
    net.Initialise(stream, 1);
    if (share_memory) net.ShareMemory(MemorySharing::kTraining, std::make_shared<MemoryPool>());
  }
  static NetState TrainState() {
    NetState state;
    state.set_phase(TRAIN);
    return state;
  }
  // `pass` decides the input; gradients accumulate, as with iter_size.
  void Pass(int pass, ParamEvents<double>* events = nullptr) {
    for (const char* name : {"x", "y"}) {
      Blob<double>& blob = *net.FindBlob(name);
      std::vector<double> values;
      for (int64_t i = 0; i < blob.count(); ++i) {
        values.push_back(0.125 * static_cast<double>((i * 7 + pass * 5) % 11) - 0.5);
      }
      blob.SetData(stream, values);
    }
    net.Forward(run, events);
    net.Backward(run, events);
  }
  std::vector<double> Gradient(int param) {
    return At(net.params(), param).blob->DiffToHost(stream);
  }
  Stream stream;
  RunContext run{.stream = stream};
  Net<double> net;
};

// first/0, first/1, second/0 (third/0 is the same), second/1, third/1
constexpr int kFirst = 0, kShared = 2;

TEST(FactorsOfANet, GiveThePlainGradientSummedOverPassesAndLayers) {
  for (const bool share_memory : {false, true}) {
    Running plain(kNet, share_memory), offering(kNet, share_memory);
    for (const int param : {kFirst, kShared}) ASSERT_TRUE(offering.net.RequestFactors(param));
    Multiplier multiplier(offering.net, offering.stream);
    for (const int pass : {0, 1}) {
      plain.Pass(pass);
      multiplier.final_params.clear();
      offering.Pass(pass, &multiplier);
      EXPECT_EQ(multiplier.final_params.size(), plain.net.params().size());
    }
    for (const int param : {kFirst, kShared}) {
      EXPECT_THAT(plain.Gradient(param), ::testing::Contains(::testing::Ne(0)));
      EXPECT_THAT(At(multiplier.gradients, param),
                  Pointwise(DoubleNear(1e-12), plain.Gradient(param)));
      EXPECT_THAT(offering.Gradient(param), Each(0));
    }
    for (const int bias : {1, 3, 4}) EXPECT_EQ(offering.Gradient(bias), plain.Gradient(bias));
  }
}

TEST(FactorsOfANet, AreComputedAgainWhenNoLongerWanted) {
  Running plain(kNet, false), offering(kNet, false);
  ASSERT_TRUE(offering.net.RequestFactors(kShared));
  ASSERT_TRUE(offering.net.RequestFactors(kShared, /*wanted=*/false));
  plain.Pass(0);
  offering.Pass(0);
  EXPECT_EQ(offering.Gradient(kShared), plain.Gradient(kShared));
}

TEST(FactorsOfANet, AreRefusedWhereALayerHasNone) {
  Running net(kNet, false);
  EXPECT_FALSE(net.net.RequestFactors(1));  // a bias
  Running frozen(
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 5 dim: 3 } } }\n" +
          Ip("a", "x", "param { lr_mult: 0 }") + Ip("b", "a", "loss_weight: 1"),
      false);
  EXPECT_FALSE(frozen.net.RequestFactors(0));
  EXPECT_TRUE(frozen.net.RequestFactors(2));
}

TEST(FactorsOfANet, AreMultipliedByTheLayerWhereNobodyListens) {
  Running plain(kNet, false), offering(kNet, false);
  ASSERT_TRUE(offering.net.RequestFactors(kFirst));
  Multiplier multiplier(offering.net, offering.stream);
  for (const int pass : {0, 1}) {
    plain.Pass(pass);
    offering.Pass(pass);
  }
  EXPECT_EQ(offering.Gradient(kFirst), plain.Gradient(kFirst));
  offering.Pass(2, &multiplier);  // offered again
  EXPECT_THAT(At(multiplier.gradients, kFirst), ::testing::Contains(::testing::Ne(0)));
  EXPECT_EQ(offering.Gradient(kFirst), plain.Gradient(kFirst));
}

TEST(FactorsOfANet, HaveTheRowsOfAllLayersThatShareAWeight) {
  Running net(kNet, false);
  EXPECT_EQ(net.net.FactorRows(kFirst), 5);
  EXPECT_EQ(net.net.FactorRows(kShared), 10);
  EXPECT_EQ(net.net.FactorRows(1), 0);  // a bias
}

// x (5, 3, 2, 2) -> y (5, 4, 1, 1), all pixels in one window.
std::string ConvolutionNet(const std::string& param) {
  return "layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 5 dim: 3 "
         "dim: 2 dim: 2 } shape { dim: 5 dim: 4 dim: 1 dim: 1 } } }\n"
         "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'conv' convolution_param { "
         "num_output: 4 weight_filler { type: 'gaussian' } " +
         param +
         " } }\n"
         "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"
         "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'conv' bottom: 'y' }\n";
}

TEST(FactorsOfANet, AreThoseOfAConvolutionWhoseWindowIsTheImage) {
  for (const bool share_memory : {false, true}) {
    const std::string text = ConvolutionNet("kernel_size: 2");
    Running plain(text, share_memory), offering(text, share_memory);
    EXPECT_EQ(offering.net.FactorRows(0), 5);
    ASSERT_TRUE(offering.net.RequestFactors(0));
    Multiplier multiplier(offering.net, offering.stream);
    plain.Pass(0);
    offering.Pass(0, &multiplier);
    EXPECT_THAT(plain.Gradient(0), ::testing::Contains(::testing::Ne(0)));
    EXPECT_THAT(At(multiplier.gradients, 0), Pointwise(DoubleNear(1e-12), plain.Gradient(0)));
    EXPECT_THAT(offering.Gradient(0), Each(0));
  }
}

TEST(FactorsOfANet, AreNotThoseOfOtherConvolutions) {
  for (const char* param : {"kernel_size: 1 stride: 2", "kernel_size: 3 pad: 1 stride: 2",
                            "kernel_size: 2 pad: 1 stride: 4"}) {
    Running net(ConvolutionNet(param), false);
    EXPECT_EQ(net.net.FactorRows(0), 0) << param;
    EXPECT_FALSE(net.net.RequestFactors(0)) << param;
  }
  std::string grouped = ConvolutionNet("kernel_size: 2 group: 2");
  grouped.replace(grouped.find("dim: 3"), 6, "dim: 4");
  EXPECT_FALSE(Running(grouped, false).net.RequestFactors(0));
}

}  // namespace
}  // namespace carafe
