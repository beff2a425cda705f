#include "carafe/net/row_axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/net/net.h"

namespace carafe {
namespace {

using ::testing::UnorderedElementsAre;

// Blobs of a net with 3 steps of `sequences` sequences in which both axes count rows. Records come
// step after step.
std::string Recurrent(int sequences) {
  return "layer { name: \"in\" type: \"Input\" top: \"flat\" top: \"cont\" "
         "  input_param { shape { dim: " +
         std::to_string(3 * sequences) +
         " dim: 5 } shape { dim: 3 dim: " + std::to_string(sequences) +
         " } } }\n"
         "layer { name: \"in2\" type: \"Dropout\" bottom: \"flat\" top: \"flat2\" }\n"
         "layer { name: \"fold\" type: \"Reshape\" bottom: \"flat2\" top: \"x\" "
         "  reshape_param { shape { dim: 3 dim: -1 dim: 5 } } }\n"
         "layer { name: \"before\" type: \"Dropout\" bottom: \"x\" top: \"x_kept\" }\n"
         "layer { name: \"lstm\" type: \"LSTM\" bottom: \"x_kept\" bottom: \"cont\" top: \"h\" "
         "  recurrent_param { num_output: 4 weight_filler { type: \"uniform\" } } }\n"
         "layer { name: \"after\" type: \"Dropout\" bottom: \"h\" top: \"h_kept\" }\n"
         "layer { name: \"ip\" type: \"InnerProduct\" bottom: \"h_kept\" top: \"y\" "
         "  inner_product_param { num_output: 2 axis: 2 weight_filler { type: \"xavier\" } } }\n"
         "layer { name: \"sum\" type: \"Reduction\" bottom: \"y\" top: \"sum\" "
         "  reduction_param { axis: 2 } }\n"
         "layer { name: \"unfold\" type: \"Reshape\" bottom: \"sum\" top: \"out\" "
         "  reshape_param { shape { dim: -1 } } }\n";
}

std::unique_ptr<Net<float>> Build(const std::string& text) {
  NetState state;
  state.set_phase(TRAIN);
  return std::make_unique<Net<float>>(ParseNetSpec(text, "n.prototxt"), state);
}

TEST(RowAxes, AreTwoAroundARecurrentLayerAsFarAsItsStepsAndSequencesGo) {
  const auto net = Build(Recurrent(6));
  const std::vector<int> axes = RowAxes(net->graph());
  std::vector<std::string> two;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] == 2) two.push_back(net->blob_names()[i]);
  }
  EXPECT_THAT(two, UnorderedElementsAre("cont", "x", "x_kept", "h", "h_kept", "y", "sum"));
}

TEST(RowAxes, AreOneWithoutRecurrentLayers) {
  const auto net = Build(
      "layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape { dim: 3 dim: 4 dim: 5 "
      "} } } layer { name: \"drop\" type: \"Dropout\" bottom: \"x\" top: \"y\" }");
  EXPECT_EQ(RowAxes(net->graph()), std::vector<int>({1, 1}));
}

// One worker with 6 sequences, or three with 2: sequence n of worker w is 3 n + w of the whole.
TEST(RowAxes, DropoutAroundARecurrentLayerDropsTheSameHoweverSequencesAreDealtOut) {
  Stream stream;
  // What became of ones on their way through `layer`, which is run on its own.
  const auto kept = [&](int sequences, Replica replica, const char* name, const char* top) {
    const auto net = Build(Recurrent(sequences));
    net->Initialise(stream, 1);
    RunContext run{.stream = stream, .pass = {.seed = 4, .index = 2}, .replica = replica};
    for (size_t l = 0; l < net->layers().size(); ++l) {
      if (net->layers()[l]->name() != name) continue;
      Blob<float>& bottom = *net->bottoms()[l][0];
      bottom.SetData(stream, std::vector<float>(static_cast<size_t>(bottom.count()), 1.f));
      net->ForwardFromTo(run, static_cast<int>(l), static_cast<int>(l));
    }
    return net->FindBlob(top)->DataToHost(stream);
  };
  const std::pair<const char*, const char*> layers[] = {{"before", "x_kept"}, {"after", "h_kept"}};
  for (const auto& [layer, top] : layers) {
    const std::vector<float> whole = kept(6, {}, layer, top);
    const size_t width = whole.size() / 18;
    for (int w = 0; w < 3; ++w) {
      const std::vector<float> mine = kept(2, {.index = w, .count = 3}, layer, top);
      ASSERT_EQ(mine.size() * 3, whole.size());
      for (size_t t = 0; t < 3; ++t) {
        for (size_t n = 0; n < 2; ++n) {
          for (size_t i = 0; i < width; ++i) {
            EXPECT_EQ(mine[(t * 2 + n) * width + i],
                      whole[(t * 6 + 3 * n + static_cast<size_t>(w)) * width + i])
                << layer << ", worker " << w << ", step " << t << ", sequence " << n;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace carafe
