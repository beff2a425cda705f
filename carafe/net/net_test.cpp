// Building a net: blobs, tops, shared parameters, who needs a gradient, and running it.
#include "carafe/net/net.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::Pointwise;

const char kInput[] =
    "layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 3 } } }\n";

// layer { name: NAME type: "InnerProduct" bottom: FROM top: TO ... }
std::string Ip(const std::string& name, const std::string& from, const std::string& to,
               const std::string& more = "", int outputs = 3) {
  return fmt::format(
      "layer {{ name: \"{}\" type: \"InnerProduct\" bottom: \"{}\" top: \"{}\" {} "
      "inner_product_param {{ num_output: {} weight_filler {{ type: \"gaussian\" }} "
      "bias_filler {{ type: \"gaussian\" }} }} }}\n",
      name, from, to, more, outputs);
}

std::unique_ptr<Net<float>> Build(const std::string& text, Phase phase = TRAIN) {
  NetState state;
  state.set_phase(phase);
  return std::make_unique<Net<float>>(ParseNetSpec(text, "n.prototxt"), state);
}

std::string ErrorOf(const std::string& text) {
  return ErrorText<ConfigError>([&] { Build(text); });
}

// A net with memory, run on its own.
struct Running {
  explicit Running(const std::string& text, Phase phase = TRAIN, uint64_t seed = 1)
      : net(Build(text, phase)) {
    net->Initialise(stream, seed);
    if (Blob<float>* x = net->FindBlob("x")) {
      std::vector<float> values;
      for (int64_t i = 0; i < x->count(); ++i)
        values.push_back(0.25f * static_cast<float>(i) - 0.5f);
      x->SetData(stream, values);
    }
  }
  double Forward() { return net->Forward(run); }
  void Backward() {
    net->ClearParamDiffs(stream);
    net->Backward(run);
  }
  std::vector<float> Gradient(const std::string& layer, int i) {
    return net->FindLayerNamed(layer)->blob(i).DiffToHost(stream);
  }
  std::vector<float> Values(const std::string& layer, int i) {
    return net->FindLayerNamed(layer)->blob(i).DataToHost(stream);
  }
  Stream stream;
  RunContext run{.stream = stream};
  std::unique_ptr<Net<float>> net;
};

std::vector<std::string> Names(const Net<float>& net, const std::vector<int>& ids) {
  std::vector<std::string> names;
  for (const int id : ids) names.push_back(net.blob_names()[static_cast<size_t>(id)]);
  return names;
}

// ---- blobs ----

TEST(Net, ListsOutputsByAlphabetAndInputsInOrder) {
  const auto net = Build(
      "layer { name: \"in\" type: \"Input\" top: \"q\" top: \"b\" "
      "input_param { shape { dim: 2 dim: 3 } } }\n" +
      Ip("z", "q", "m") + Ip("a", "b", "Z") +
      "layer { name: \"more\" type: \"Input\" top: \"c\" input_param { shape { dim: 1 } } }");
  EXPECT_THAT(Names(*net, net->output_ids()), ElementsAre("Z", "c", "m"));
  EXPECT_THAT(Names(*net, net->input_ids()), ElementsAre("q", "b", "c"));
}

TEST(Net, KeepsOneBlobForAnInPlaceLayer) {
  const auto net = Build(kInput + Ip("ip", "x", "y") +
                         "layer { name: \"r\" type: \"ReLU\" bottom: \"y\" top: \"y\" }");
  EXPECT_THAT(net->blob_names(), ElementsAre("x", "y"));
  EXPECT_EQ(net->bottom_ids()[2], net->top_ids()[2]);
}

TEST(Net, InfersShapesWithoutMemory) {
  const auto net = Build(
      "layer { name: \"in\" type: \"Input\" top: \"x\" "
      "input_param { shape { dim: 1000000 dim: 1000000 } } }\n" +
      Ip("ip", "x", "y", "", 1000000));
  EXPECT_EQ(net->FindBlob("y")->shape(), (Shape{1000000, 1000000}));
  EXPECT_EQ(net->params()[0].blob->shape(), (Shape{1000000, 1000000}));
}

TEST(Net, RefusesATopThatIsProducedTwice) {
  EXPECT_EQ(
      ErrorOf(
          kInput + Ip("a", "x", "y") +
          "layer { name: \"b\" type: \"Input\"\n  top: \"y\" input_param { shape { dim: 1 } } }"),
      "n.prototxt:4:3: error: layer \"b\" (Input): the top \"y\" is produced by layer \"a\" "
      "already\n  fix: give it another name; only a layer that reads it as the bottom of the "
      "same position may write it in place");
}

TEST(Net, NamesTheLayerTypeThatWasMeant) {
  EXPECT_EQ(
      ErrorOf(kInput + std::string("layer { name: \"a\"\n  type: \"InerProduct\" bottom: \"x\" }")),
      "n.prototxt:3:3: error: layer \"a\": unknown layer type \"InerProduct\"\n"
      "  fix: did you mean \"InnerProduct\"?");
  EXPECT_THAT(ErrorOf("layer { name: \"a\" }"),
              ::testing::StartsWith("n.prototxt:1:1: error: layer \"a\": the layer has no type\n"));
}

TEST(Net, RefusesFormsThatItWouldMisread) {
  EXPECT_EQ(ErrorOf(""),
            "n.prototxt: error: the net has no layers\n  fix: add `layer { ... }` entries");
  EXPECT_EQ(ErrorOf(kInput + std::string("layers { name: \"old\" }")),
            "n.prototxt:2:1: error: old `layers` and new `layer` entries are mixed\n"
            "  fix: write all of them as `layer { ... }`");
  for (const char* old : {"layers { }", "input: \"x\" layer { }"}) {
    NetSpec spec;
    ParseText(old, "n.prototxt", &spec.param);
    EXPECT_EQ(ErrorText<ConfigError>([&] { Net<float>(spec, NetState()); }),
              "error: the net was made in memory in an old form (`layers` or `input`)\n"
              "  fix: call Upgrade() on its NetSpec first");
  }
}

TEST(Net, RefusesAbsValInPlaceAsTheOriginalDoes) {
  EXPECT_THAT(
      ErrorOf(kInput + std::string("layer { name: 'a' type: 'AbsVal' bottom: 'x' top: 'x' }")),
      ::testing::HasSubstr("layer \"a\" (AbsVal): "));
}

TEST(Net, ForcesTheGradientOfAnInfogainMatrixAsTheOriginalDoes) {
  const std::string net =
      "layer { name: 'in' type: 'Input' top: 'x' top: 'label' top: 'h' input_param { "
      "shape { dim: 2 dim: 3 } shape { dim: 2 } shape { dim: 3 dim: 3 } } }\n"
      "layer { name: 'l' type: 'InfogainLoss' bottom: 'x' bottom: 'label' bottom: 'h' top: 'l' }";
  Running forced("force_backward: true\n" + net);
  forced.Forward();
  EXPECT_THAT(ErrorText<ConfigError>([&] { forced.Backward(); }),
              ::testing::HasSubstr("layer \"l\" (InfogainLoss)"));
}

TEST(Net, ChecksHowManyBottomsAndTopsALayerTakes) {
  EXPECT_EQ(
      ErrorOf(kInput + std::string("layer { name: \"a\" type: \"InnerProduct\" top: \"y\" }")),
      "n.prototxt:2:1: error: layer \"a\" (InnerProduct): it has 0 bottoms, but takes 1\n"
      "  fix: add or remove `bottom:` lines");
  EXPECT_EQ(
      ErrorOf(kInput + std::string("layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\"\n"
                                   "  top: \"y\" top: \"z\" }")),
      "n.prototxt:3:3: error: layer \"a\" (InnerProduct): it has 2 tops, but takes 1\n"
      "  fix: add or remove `top:` lines");
}

TEST(Net, ChecksTheCountsOfPropagateDownLossWeightAndParam) {
  EXPECT_EQ(
      ErrorOf(kInput + Ip("a", "x", "y", "\npropagate_down: true propagate_down: true")),
      "n.prototxt:3:1: error: layer \"a\" (InnerProduct): propagate_down is given 2 times for "
      "1 bottoms\n  fix: give it once per bottom, or not at all");
  EXPECT_EQ(ErrorOf(kInput + Ip("a", "x", "y", "\nloss_weight: 1 loss_weight: 1")),
            "n.prototxt:3:1: error: layer \"a\" (InnerProduct): loss_weight is given 2 times for 1 "
            "tops\n  fix: give it once per top, or not at all");
  EXPECT_EQ(
      ErrorOf(kInput + Ip("a", "x", "y", "\nparam { } param { } param { }")),
      "n.prototxt:3:1: error: layer \"a\" (InnerProduct): it has 3 `param` entries, but only 2 "
      "parameters\n  fix: remove the superfluous `param { }` entries");
}

TEST(Net, SaysWhichLayerAnAxisErrorIsIn) {
  EXPECT_THAT(
      ErrorOf(kInput + std::string("layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\" top: "
                                   "\"y\" inner_product_param { num_output: 1 axis: 5 } }")),
      ::testing::HasSubstr("layer \"a\" (InnerProduct)"));
}

// ---- loss ----

TEST(Net, LossWeightsScaleLossAndGradients) {
  const auto text = [](const std::string& weight) {
    return kInput + Ip("a", "x", "h") + Ip("b", "h", "y", weight);
  };
  Running plain(text("loss_weight: 1"));
  const double loss = plain.Forward();
  plain.Backward();
  const std::vector<float> gradient = plain.Gradient("a", 0);
  EXPECT_NE(gradient, std::vector<float>(gradient.size(), 0.0f));
  for (const float weight : {2.0f, 0.0f, 1.0f, -1.0f, -2.5f, 3.7f}) {
    Running scaled(text(fmt::format("loss_weight: {}", weight)));
    EXPECT_NEAR(scaled.Forward(), weight * loss, 1e-5);
    scaled.Backward();
    std::vector<float> expected = gradient;
    for (float& value : expected) value *= weight;
    EXPECT_THAT(scaled.Gradient("a", 0), Pointwise(FloatNear(1e-5f), expected)) << weight;
  }
}

TEST(Net, CountsALossThatIsUsedAgainOnce) {
  Running once(kInput + Ip("a", "x", "h", "loss_weight: 2"));
  const double loss = once.Forward();
  Running again(kInput + Ip("a", "x", "h", "loss_weight: 2") + Ip("b", "h", "y"));
  EXPECT_NEAR(again.Forward(), loss, 1e-6);
  again.Backward();
  once.Backward();
  EXPECT_EQ(again.Gradient("a", 0), once.Gradient("a", 0));  // y leads to no loss
  Running both(kInput + Ip("a", "x", "h", "loss_weight: 2") + Ip("b", "h", "y", "loss_weight: 1"));
  both.Forward();
  both.Backward();
  EXPECT_NE(both.Gradient("a", 0), once.Gradient("a", 0));
}

// ---- who needs a gradient ----

using Flags = std::vector<bool>;

TEST(Net, PropagatesOnlyDownToLearnedParameters) {
  const auto net = Build(kInput + Ip("a", "x", "h") + Ip("b", "h", "y", "loss_weight: 1"));
  EXPECT_THAT(net->layer_needs_backward(), ElementsAre(false, true, true));
  EXPECT_THAT(net->propagate_down(), ElementsAre(Flags{}, Flags{false}, Flags{true}));
}

TEST(Net, NeedsNoGradientBelowFrozenLayers) {
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 0 }";
  const auto net = Build(kInput + Ip("a", "x", "h", frozen) + Ip("b", "h", "y", "loss_weight: 1"));
  EXPECT_THAT(net->layer_needs_backward(), ElementsAre(false, false, true));
  EXPECT_THAT(net->propagate_down(), ElementsAre(Flags{}, Flags{false}, Flags{false}));
  EXPECT_FALSE(net->layers()[1]->param_propagate_down(0));
  EXPECT_TRUE(net->layers()[2]->param_propagate_down(0));
}

TEST(Net, NeedsNoGradientForWhatLeadsToNoLoss) {
  const auto net = Build(kInput + Ip("a", "x", "h", "loss_weight: 1") + Ip("b", "h", "side") +
                         Ip("c", "side", "deep"));
  // in, a, the split of h, b, c
  EXPECT_THAT(net->layer_needs_backward(), ElementsAre(false, true, true, false, false));
}

TEST(Net, PropagateDownFalseCutsWhatIsBelow) {
  const auto net =
      Build(kInput + Ip("a", "x", "h") + Ip("b", "h", "y", "loss_weight: 1 propagate_down: false"));
  EXPECT_THAT(net->layer_needs_backward(), ElementsAre(false, false, true));
  EXPECT_THAT(net->propagate_down(), ElementsAre(Flags{}, Flags{false}, Flags{false}));
}

TEST(Net, PropagateDownTrueReachesAnInput) {
  const auto net = Build(kInput + Ip("a", "x", "y", "loss_weight: 1 propagate_down: true"));
  EXPECT_THAT(net->propagate_down(), ElementsAre(Flags{}, Flags{true}));
}

TEST(Net, CutsAtTheSplitOnlyWhereAllBranchesAreCut) {
  const auto text = [](const char* first, const char* second) {
    return kInput + Ip("a", "x", "h") + Ip("b", "h", "y", first) + Ip("c", "h", "z", second);
  };
  const char cut[] = "loss_weight: 1 propagate_down: false";
  const char open[] = "loss_weight: 1";
  EXPECT_THAT(Build(text(cut, open))->layer_needs_backward(),
              ElementsAre(false, true, true, true, true));
  EXPECT_THAT(Build(text(cut, cut))->layer_needs_backward(),
              ElementsAre(false, false, false, true, true));
}

TEST(Net, ForceBackwardReachesInputsAndFrozenParameters) {
  const std::string frozen = "param { lr_mult: 0 } param { lr_mult: 0 }";
  Running forced("force_backward: true\n" + std::string(kInput) + Ip("a", "x", "h", frozen) +
                 Ip("b", "h", "y", "loss_weight: 1"));
  EXPECT_THAT(forced.net->layer_needs_backward(), ElementsAre(true, true, true));
  EXPECT_THAT(forced.net->propagate_down(), ElementsAre(Flags{}, Flags{true}, Flags{true}));
  forced.Forward();
  forced.Backward();
  EXPECT_NE(forced.Gradient("a", 0), std::vector<float>(9, 0.0f));
  EXPECT_NE(forced.net->FindBlob("x")->DiffToHost(forced.stream), std::vector<float>(6, 0.0f));
}

// ---- shared parameters ----

const char kShared[] = "param { name: \"w\" } param { name: \"b\" }";

TEST(Net, SharesParametersByNameAndAddsTheirGradients) {
  Running shared(kInput + Ip("a", "x", "h", kShared) +
                 Ip("b", "h", "y", std::string(kShared) + " loss_weight: 1"));
  ASSERT_EQ(shared.net->params().size(), 2u);
  EXPECT_EQ(shared.net->params()[0].name, "a/0");
  EXPECT_EQ(shared.net->OwnerOf(2, 0), 0);
  EXPECT_EQ(shared.net->OwnerOf(2, 1), 1);
  EXPECT_EQ(shared.Values("a", 0), shared.Values("b", 0));
  shared.Forward();
  shared.Backward();
  EXPECT_EQ(shared.Gradient("a", 0), shared.Gradient("b", 0));
  // Two nets of the same values, one learning in a only, the other in b only.
  Running alone(kInput + Ip("a", "x", "h") + Ip("b", "h", "y", "loss_weight: 1"));
  for (const char* layer : {"a", "b"}) {
    for (int i = 0; i < 2; ++i) {
      alone.net->FindLayerNamed(layer)->blob(i).SetData(alone.stream, shared.Values("a", i));
    }
  }
  alone.Forward();
  alone.Backward();
  std::vector<float> sum = alone.Gradient("a", 0);
  const std::vector<float> other = alone.Gradient("b", 0);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  EXPECT_THAT(shared.Gradient("a", 0), Pointwise(FloatNear(1e-5f), sum));
}

TEST(Net, SharesEqualCountsWhenAsked) {
  const std::string permissive =
      "param { name: \"w\" share_mode: PERMISSIVE } param { name: \"c\" }";
  const std::string mine = "param { name: \"w\" }";
  // w is 2x3 in a and 3x2 in b.
  Running net(kInput + Ip("a", "x", "h", mine, 2) + Ip("b", "h", "y", permissive, 3));
  EXPECT_EQ(net.net->params().size(), 3u);
  EXPECT_EQ(net.Values("a", 0), net.Values("b", 0));
  EXPECT_EQ(
      ErrorOf(kInput + Ip("a", "x", "h", mine, 2) + Ip("b", "h", "y", "\n" + mine, 3)),
      "n.prototxt:4:9: error: layer \"b\" (InnerProduct): the shared parameter \"w\" has shape "
      "3 2 (6) here and 2 3 (6) in layer \"a\"\n  fix: the shapes must be equal; share_mode: "
      "PERMISSIVE asks for equal counts only");
  EXPECT_EQ(
      ErrorOf(kInput + Ip("a", "x", "h", mine, 2) + Ip("b", "h", "y", "\n" + permissive, 4)),
      "n.prototxt:4:9: error: layer \"b\" (InnerProduct): the shared parameter \"w\" has shape "
      "4 2 (8) here and 2 3 (6) in layer \"a\"\n  fix: the counts must be equal");
}

struct MultCase {
  const char* owner;
  const char* sharer;
  float lr, decay;
};
TEST(Net, TakesMultipliersFromWhicheverSharerGivesThem) {
  const MultCase cases[] = {{"", "", 1, 1},
                            {"lr_mult: 2 decay_mult: 3", "", 2, 3},
                            {"", "lr_mult: 2 decay_mult: 3", 2, 3},
                            {"lr_mult: 2", "decay_mult: 0", 2, 0},
                            {"lr_mult: 2", "lr_mult: 2", 2, 1},
                            {"", "lr_mult: 0", 0, 1}};
  for (const MultCase& c : cases) {
    const auto net =
        Build(kInput + Ip("a", "x", "h", fmt::format("param {{ name: \"w\" {} }}", c.owner)) +
              Ip("b", "h", "y", fmt::format("param {{ name: \"w\" {} }}", c.sharer)));
    EXPECT_EQ(net->params()[0].lr_mult, c.lr) << c.owner << " | " << c.sharer;
    EXPECT_EQ(net->params()[0].decay_mult, c.decay) << c.owner << " | " << c.sharer;
  }
}

TEST(Net, RefusesMultipliersThatContradict) {
  EXPECT_EQ(ErrorOf(kInput + Ip("a", "x", "h", "param { name: \"w\" lr_mult: 2 }") +
                    Ip("b", "h", "y", "\nparam { name: \"w\" lr_mult: 3 }")),
            "n.prototxt:4:19: error: layer \"b\" (InnerProduct): the shared parameter \"w\" has "
            "lr_mult 3 here and 2 before\n  fix: give it in one place only, or the same value "
            "everywhere");
  EXPECT_EQ(ErrorOf(kInput + Ip("a", "x", "h", "param { name: \"w\" decay_mult: 0 }") +
                    Ip("b", "h", "y", "\nparam { name: \"w\" decay_mult: 1 }")),
            "n.prototxt:4:19: error: layer \"b\" (InnerProduct): the shared parameter \"w\" has "
            "decay_mult 1 here and 0 before\n  fix: give it in one place only, or the same value "
            "everywhere");
}

TEST(Net, FreezesStatisticsThatForwardUpdates) {
  const auto bn = [](const std::string& more) {
    return fmt::format("layer {{ name: \"bn\" type: \"BatchNorm\" bottom: \"h\" top: \"n\" {} }}\n",
                       more);
  };
  for (const char* more : {"", "param { lr_mult: 0 } param { lr_mult: 0 }",
                           "param { } param { } param { lr_mult: 2 }"}) {  // three: an old habit
    const auto net =
        Build(kInput + Ip("a", "x", "h") + bn(more) + Ip("b", "n", "y", "loss_weight: 1"));
    std::vector<std::string> frozen;
    for (const Param<float>& param : net->params()) {
      if (param.frozen()) frozen.push_back(param.name);
    }
    EXPECT_THAT(frozen, ElementsAre("bn/0", "bn/1", "bn/2")) << more;
    EXPECT_THAT(net->layer_needs_backward(), ElementsAre(false, true, true, true));
  }
  EXPECT_THAT(ErrorOf(kInput + Ip("a", "x", "h") + bn("param { lr_mult: 1 } param { lr_mult: 1 }")),
              ::testing::HasSubstr("cannot be learned"));
}

// ---- memory ----

TEST(Net, LaysParametersOutInTheOrderOfTheBackwardPass) {
  Running r(kInput + Ip("a", "x", "h", "", 4) +
            Ip("b", "h", "i", "param { lr_mult: 0 } param { lr_mult: 1 }", 5) +
            Ip("c", "i", "y", "", 2));
  const Net<float>& net = *r.net;
  std::vector<std::string> by_name;
  std::vector<std::pair<int64_t, std::string>> order;
  for (const Param<float>& param : net.params()) {
    by_name.push_back(param.name);
    order.emplace_back(param.arena_offset, param.name);
    EXPECT_EQ(param.arena_offset % 16, 0) << param.name;
    EXPECT_EQ(param.blob->data(r.stream),
              static_cast<float*>(net.value_arena()->Get(r.stream, 0)) + param.arena_offset);
    EXPECT_EQ(param.blob->diff(r.stream),
              static_cast<float*>(net.gradient_arena()->Get(r.stream, 0)) + param.arena_offset);
  }
  EXPECT_THAT(by_name, ElementsAre("a/0", "a/1", "b/0", "b/1", "c/0", "c/1"));  // Caffe's order
  std::ranges::sort(order);
  std::vector<std::string> in_memory;
  for (const auto& [offset, name] : order) in_memory.push_back(name);
  EXPECT_THAT(in_memory, ElementsAre("c/1", "c/0", "b/1", "a/1", "a/0", "b/0"));  // frozen last
  EXPECT_EQ(net.arena_count(), 16 + 16 + 16 + 16 + 16 + 32);  // 2, 10, 5, 4, 12 and 20 numbers
}

TEST(Net, LetsGradientsThatAreUsedAtOnceTakeTheSamePlaces) {
  const std::string shared = "param { name: \"w\" } param { name: \"v\" }";
  Running r(kInput + Ip("a", "x", "h", "", 4) +
            Ip("b", "h", "i", "param { lr_mult: 0 } param { lr_mult: 1 }", 5) +
            Ip("c", "i", "j", shared, 5) + Ip("d", "j", "k", "", 5) + Ip("e", "k", "l", shared, 5) +
            "layer { name: \"s\" type: \"Scale\" bottom: \"l\" top: \"l\" }");
  Net<float>& net = *r.net;
  net.PlaceGradients(r.stream, GradientLife::kBackward);
  const auto* begin = static_cast<const float*>(net.gradient_arena()->Get(r.stream, 0));
  std::map<std::string, int64_t> at;
  for (const Param<float>& param : net.params()) {
    at[param.name] = param.blob->diff(r.stream) - begin;
    EXPECT_EQ(at[param.name] % 16, 0) << param.name;
  }
  EXPECT_EQ(net.layers()[5]->blob(0).diff(r.stream), begin + at["c/0"]);  // shared with e
  // In use together: s with e, which may do its work; c (and e) with d. The others take turns.
  const std::set<int64_t> together = {at["s/0"], at["c/0"], at["c/1"]};
  EXPECT_EQ(together.size(), 3u);
  const std::set<int64_t> later = {at["d/0"], at["d/1"], at["c/0"], at["c/1"]};
  EXPECT_EQ(later.size(), 4u);
  const std::set<int64_t> last = {at["a/0"], at["a/1"]};
  EXPECT_EQ(last.size(), 2u);
  for (const auto& [name, offset] : at) {
    if (name == "b/0") continue;
    EXPECT_LT(offset, at["b/0"]) << name << ": a frozen one has its own place";
  }
  // 25, 5, 25 and 5 numbers at a time, then the 20 frozen ones; together they would be 160.
  EXPECT_EQ(net.gradient_arena()->bytes(), (32 + 16 + 32 + 16 + 32) * sizeof(float));
  net.PlaceGradients(r.stream, GradientLife::kStep);
  EXPECT_EQ(net.gradient_arena()->bytes(), static_cast<size_t>(net.arena_count()) * sizeof(float));
}

TEST(Net, FillsByNameAndSeedOnly) {
  const std::string both = kInput + Ip("a", "x", "h") + Ip("b", "h", "y");
  Running one(both), same(both), other(both, TRAIN, 2), fewer(kInput + Ip("b", "x", "y"));
  EXPECT_EQ(one.Values("a", 0), same.Values("a", 0));
  EXPECT_NE(one.Values("a", 0), other.Values("a", 0));
  EXPECT_NE(one.Values("a", 0), one.Values("b", 0));
  EXPECT_EQ(one.Values("b", 0), fewer.Values("b", 0));
}

TEST(Net, SharesParametersWithAnotherNetByLayerName) {
  Running train(kInput + Ip("a", "x", "h") + Ip("b", "h", "y"));
  Running test(kInput + Ip("a", "x", "h") + Ip("new", "h", "z"), TEST, 7);
  test.net->ShareParamsWith(*train.net);
  const std::vector<float> values(9, 0.5f);
  train.net->FindLayerNamed("a")->blob(0).SetData(train.stream, values);
  EXPECT_EQ(test.Values("a", 0), values);
  Running wrong(kInput + Ip("a", "x", "h", "", 4));
  EXPECT_EQ(ErrorText<ConfigError>([&] { wrong.net->ShareParamsWith(*train.net); }),
            "n.prototxt:2:1: error: layer \"a\" (InnerProduct): parameter 0 has shape 4 3 (12), in "
            "the net that it shares with 3 3 (9)\n  fix: rename one of the two layers");
}

// ---- running ----

class Recorder : public ParamEvents<float> {
 public:
  void BeforeRead(int param) override { events.push_back(fmt::format("read {}", param)); }
  void GradientFinal(int param) override { events.push_back(fmt::format("final {}", param)); }
  std::vector<std::string> events;
};

TEST(Net, TellsWhenParametersAreReadAndTheirGradientsFinal) {
  Running r(kInput + Ip("a", "x", "h", kShared) + Ip("b", "h", "i") +
            Ip("c", "i", "y", std::string(kShared) + " loss_weight: 1"));
  Recorder recorder;
  r.net->Forward(r.run, &recorder);
  EXPECT_THAT(recorder.events,
              ElementsAre("read 0", "read 1", "read 2", "read 3", "read 0", "read 1"));
  recorder.events.clear();
  r.net->Backward(r.run, &recorder);
  // a and c share 0 and 1, so those are final only after a, the last to run.
  EXPECT_THAT(recorder.events, ElementsAre("final 3", "final 2", "final 1", "final 0"));
}

TEST(Net, TellsOfParametersThatNeedNoBackwardToo) {
  Running r(kInput + Ip("a", "x", "h", "param { lr_mult: 0 } param { lr_mult: 0 }") +
            Ip("b", "h", "y", "loss_weight: 1"));
  Recorder recorder;
  r.net->Forward(r.run);
  r.net->Backward(r.run, &recorder);
  EXPECT_THAT(recorder.events, ElementsAre("final 3", "final 2", "final 1", "final 0"));
}

TEST(Net, AddsToParameterGradientsAndOverwritesTheOthers) {
  Running r("force_backward: true\n" + (kInput + Ip("a", "x", "y", "loss_weight: 1")));
  r.Forward();
  r.Backward();
  const std::vector<float> bottom = r.net->FindBlob("x")->DiffToHost(r.stream);
  std::vector<float> twice = r.Gradient("a", 0);
  for (float& value : twice) value *= 2;
  r.net->Forward(r.run);
  r.net->Backward(r.run);
  EXPECT_THAT(r.Gradient("a", 0), Pointwise(FloatNear(1e-6f), twice));
  EXPECT_EQ(r.net->FindBlob("x")->DiffToHost(r.stream), bottom);
}

TEST(Net, FollowsAnInputThatIsReshaped) {
  Running r(kInput + Ip("a", "x", "y"));
  r.Forward();
  r.net->FindBlob("x")->Reshape({5, 3});
  r.net->Reshape(r.run);
  EXPECT_EQ(r.net->FindBlob("y")->shape(), (Shape{5, 3}));
  r.net->FindBlob("x")->SetData(r.stream, std::vector<float>(15, 1.0f));
  r.Forward();
  EXPECT_EQ(r.net->FindBlob("x")->shape(), (Shape{5, 3}));
  EXPECT_EQ(r.net->FindBlob("y")->DataToHost(r.stream).size(), 15u);
}

TEST(Net, RunsAPartOfItsLayers) {
  Running r(kInput + Ip("a", "x", "h") + Ip("b", "h", "y"));
  r.Forward();
  const std::vector<float> y = r.net->FindBlob("y")->DataToHost(r.stream);
  r.net->FindBlob("h")->SetData(r.stream, std::vector<float>(6, 0.0f));
  r.net->ForwardFromTo(r.run, 2, 2);
  EXPECT_NE(r.net->FindBlob("y")->DataToHost(r.stream), y);
  r.net->ForwardFromTo(r.run, 1, 2);
  EXPECT_EQ(r.net->FindBlob("y")->DataToHost(r.stream), y);
}

TEST(Net, RefusesABottomThatItsParametersDoNotFit) {
  const NetSpec spec = ParseNetSpec(R"(
    layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 6 dim: 6 } } }
    layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
      convolution_param { num_output: 3 kernel_size: 3 } }
    layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
      inner_product_param { num_output: 2 } })",
                                    "net.prototxt");
  Net<float> net(spec, NetState());
  Stream stream;
  net.Initialise(stream, 1);
  RunContext run{.stream = stream};
  net.Forward(run);
  const auto reshaped = [&](const Shape& shape) -> std::string {
    net.FindBlob("x")->Reshape(shape);
    try {
      net.Forward(run);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(reshaped({4, 2, 6, 6}), "");  // more rows
  EXPECT_THAT(reshaped({1, 5, 6, 6}), ::testing::HasSubstr("layer \"conv\""));
  EXPECT_THAT(reshaped({1, 2, 8, 8}), ::testing::HasSubstr("layer \"ip\""));
  EXPECT_EQ(reshaped({1, 2, 6, 6}), "");
}

}  // namespace
}  // namespace carafe
