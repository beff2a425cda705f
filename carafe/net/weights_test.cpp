#include "carafe/net/weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

std::string Ip(const std::string& name, const std::string& from, const std::string& to,
               const std::string& more, int outputs) {
  return fmt::format(
      "layer {{ name: \"{}\" type: \"InnerProduct\" bottom: \"{}\" top: \"{}\" {} "
      "inner_product_param {{ num_output: {} weight_filler {{ type: \"gaussian\" }} }} }}\n",
      name, from, to, more, outputs);
}

const char kInput[] =
    "layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape { dim: 2 dim: 3 } } }\n";

template <typename T>
struct Running {
  explicit Running(const std::string& layers, uint64_t seed = 1)
      : net(ParseNetSpec("name: \"n\" " + std::string(kInput) + layers, "n.prototxt"), NetState()) {
    net.Initialise(stream, seed);
  }
  std::vector<T> Values(const std::string& layer, int i) {
    return net.FindLayerNamed(layer)->blob(i).DataToHost(stream);
  }
  NetParameter Saved(bool with_diff = false) { return ToNetParameter(stream, net, with_diff); }
  std::string CopyError(const NetParameter& source) {
    return ErrorText<DataError>([&] { CopyWeights(stream, source, "w.caffemodel", net); });
  }
  Stream stream;
  Net<T> net;
};

const std::string kTwo = Ip("a", "x", "h", "", 4) + Ip("b", "h", "y", "", 2);

template <typename T>
class WeightsOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WeightsOf, Types);

TYPED_TEST(WeightsOf, ANetReturnBitForBit) {
  const TestFolder folder;
  Running<TypeParam> from(kTwo, 1), to(kTwo, 2);
  EXPECT_NE(WeightsHash(from.stream, from.net), WeightsHash(to.stream, to.net));
  WriteFileAtomically(folder / "w.caffemodel", from.Saved().SerializeAsString());
  LoadWeights(to.stream, folder / "w.caffemodel", to.net);
  EXPECT_EQ(WeightsHash(from.stream, from.net), WeightsHash(to.stream, to.net));
}

TEST(Weights, OfAFileCarryNoFieldsOfOurOwn) {
  Running<float> net(
      "layer { name: 'p' type: 'Permute' bottom: 'x' top: 'p' permute_param { order: 1 order: 0 } }"
      "layer { name: 'l' type: 'Input' top: 'l' input_param { shape { dim: 3 } } }"
      "layer { name: 's' type: 'SoftmaxWithLoss' bottom: 'p' bottom: 'l'"
      "        loss_param { label_smoothing: 0.1 ignore_label: 5 } }");
  const NetParameter saved = net.Saved();
  ASSERT_EQ(saved.layer_size(), 4);
  EXPECT_EQ(saved.layer(1).type(), "Permute");
  EXPECT_FALSE(saved.layer(1).has_permute_param());
  EXPECT_FALSE(saved.layer(3).loss_param().has_label_smoothing());
  EXPECT_EQ(saved.layer(3).loss_param().ignore_label(), 5);
}

// caffe-parallel and Caffe-MPI 1.0 write scale and bias first, as (1, C, 1, 1).
TEST(Weights, OfASingleNumberAreSavedWithoutAShape) {
  const std::string prelu =
      "layer { name: \"p\" type: \"PReLU\" bottom: \"x\" top: \"y\" prelu_param { "
      "channel_shared: true filler { value: 0.5 } } }";
  Running<float> from(prelu), to(prelu);
  const NetParameter saved = from.Saved();
  EXPECT_FALSE(saved.layer(1).blobs(0).has_shape());
  EXPECT_THAT(saved.layer(1).blobs(0).data(), ElementsAre(0.5));
  to.net.FindLayerNamed("p")->blob(0).SetData(to.stream, std::vector<float>{0});
  CopyWeights(to.stream, saved, "w.caffemodel", to.net);
  EXPECT_THAT(to.Values("p", 0), ElementsAre(0.5));
}

TEST(Weights, OfAForksBatchNormFindTheirPlaces) {
  Running<float> run(
      "layer { name: \"bn\" type: \"BatchNorm\" bottom: \"x\" top: \"y\" "
      "batch_norm_param { scale_filler { value: 1 } bias_filler { } } }");
  NetParameter source;
  LayerParameter* layer = source.add_layer();
  layer->set_name("bn");
  layer->set_type("BatchNorm");
  for (int i = 0; i < 5; ++i) {
    BlobProto* blob = layer->add_blobs();
    const int values = i < 4 ? 3 : 1;
    for (const int dim : {1, values, 1, 1}) blob->mutable_shape()->add_dim(dim);
    for (int k = 0; k < values; ++k) blob->add_data(i < 4 ? static_cast<float>(10 * i + k) : 0.f);
  }
  CopyWeights(run.stream, source, "fork.caffemodel", run.net);
  EXPECT_THAT(run.Values("bn", 0), ElementsAre(20, 21, 22)) << "mean";
  EXPECT_THAT(run.Values("bn", 1), ElementsAre(30, 31, 32)) << "variance";
  EXPECT_THAT(run.Values("bn", 2), ElementsAre(1)) << "the statistics are plain";
  EXPECT_THAT(run.Values("bn", 3), ElementsAre(0, 1, 2)) << "scale";
  EXPECT_THAT(run.Values("bn", 4), ElementsAre(10, 11, 12)) << "bias";
}

TEST(Weights, OfDoubleNetsAreSavedAsDoubles) {
  Running<double> net(kTwo);
  const BlobProto blob = net.Saved(true).layer(1).blobs(0);
  EXPECT_EQ(blob.double_data_size(), 12);
  EXPECT_EQ(blob.double_diff_size(), 12);
  EXPECT_EQ(blob.data_size(), 0);
  EXPECT_THAT(blob.shape().dim(), ElementsAre(4, 3));
}

TEST(Weights, AreSavedWithSplitsPhasesAndSharedBlobs) {
  const std::string shared = "param { name: \"w\" } param { name: \"b\" }";
  Running<float> net(Ip("a", "x", "h", shared, 3) + Ip("b", "h", "y", shared, 3) +
                     Ip("c", "h", "z", "", 1));
  const NetParameter saved = net.Saved();
  EXPECT_EQ(saved.name(), "n");
  std::vector<std::string> layers;
  for (const LayerParameter& layer : saved.layer()) {
    layers.push_back(fmt::format("{} {} {}", layer.name(), layer.type(), layer.blobs_size()));
    EXPECT_TRUE(layer.has_phase());
  }
  EXPECT_THAT(layers, ElementsAre("in Input 0", "a InnerProduct 2", "h_a_0_split Split 0",
                                  "b InnerProduct 2", "c InnerProduct 2"));
  EXPECT_EQ(saved.layer(1).blobs(0).SerializeAsString(),
            saved.layer(3).blobs(0).SerializeAsString());
  EXPECT_EQ(saved.layer(1).blobs(0).diff_size(), 0);
}

TEST(Weights, OfStatisticsAreSavedAsFrozen) {
  Running<float> net(
      "layer { name: \"bn\" type: \"BatchNorm\" bottom: \"x\" top: \"y\" param { lr_mult: 0 } }");
  const LayerParameter layer = net.Saved().layer(1);
  ASSERT_EQ(layer.param_size(), 3);
  for (const ParamSpec& param : layer.param()) EXPECT_EQ(param.lr_mult(), 0);
  EXPECT_EQ(layer.blobs_size(), 3);
}

TEST(Weights, AreCopiedByLayerName) {
  Running<float> from(kTwo, 1);
  Running<float> to(Ip("a", "x", "h", "", 4) + Ip("fresh", "h", "y", "", 5), 2);
  const std::vector<float> fresh = to.Values("fresh", 0);
  CopyWeights(to.stream, from.Saved(), "w", to.net);  // b is ignored
  EXPECT_EQ(to.Values("a", 0), from.Values("a", 0));
  EXPECT_EQ(to.Values("a", 1), from.Values("a", 1));
  EXPECT_EQ(to.Values("fresh", 0), fresh);
}

TEST(Weights, OfTheFirstOfSeveralLayersWithOneNameCount) {
  Running<float> net(kTwo, 1), other(kTwo, 2);
  NetParameter twice = other.Saved();
  twice.add_layer()->CopyFrom(net.Saved().layer(1));
  CopyWeights(net.stream, twice, "w", net.net);
  EXPECT_EQ(net.Values("a", 0), other.Values("a", 0));
}

TEST(Weights, WithLegacyShapesFitWithLeadingOnes) {
  Running<float> net(kTwo);
  NetParameter source;
  LayerParameter* layer = source.add_layer();
  layer->set_name("a");
  const auto add = [&](int n, int c, int h, int w) {
    BlobProto* blob = layer->add_blobs();
    blob->set_num(n);
    blob->set_channels(c);
    blob->set_height(h);
    blob->set_width(w);
    for (int i = 0; i < n * c * h * w; ++i) blob->add_data(static_cast<float>(i));
  };
  add(1, 1, 4, 3);
  add(1, 1, 1, 4);
  CopyWeights(net.stream, source, "w", net.net);
  EXPECT_THAT(net.Values("a", 1), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(net.Values("a", 0)[11], 11);
  layer->clear_blobs();
  add(4, 3, 1, 1);  // the ones are behind
  add(1, 1, 1, 4);
  EXPECT_EQ(
      net.CopyError(source),
      "w.caffemodel: error: layer \"a\", parameter 0: the file has shape 4 3 1 1 (12), the net "
      "4 3 (12)\n  fix: rename the layer in the net to train it from the start");
}

TEST(Weights, OfAnotherShapeOrNumberAreRefused) {
  Running<float> net(kTwo);
  Running<float> wide(Ip("a", "x", "h", "", 5));
  EXPECT_EQ(
      net.CopyError(wide.Saved()),
      "w.caffemodel: error: layer \"a\", parameter 0: the file has shape 5 3 (15), the net 4 3 "
      "(12)\n  fix: rename the layer in the net to train it from the start");
  NetParameter fewer = net.Saved();
  fewer.mutable_layer(1)->mutable_blobs()->RemoveLast();
  EXPECT_EQ(net.CopyError(fewer),
            "w.caffemodel: error: layer \"a\" has 1 parameters in the file and 2 in the net\n"
            "  fix: rename the layer in the net to train it from the start");
  NetParameter damaged = net.Saved();
  damaged.mutable_layer(1)->mutable_blobs(0)->mutable_data()->RemoveLast();
  EXPECT_EQ(net.CopyError(damaged),
            "w.caffemodel: error: layer \"a\", parameter 0: 11 values do not fill its shape\n"
            "  fix: the file is damaged; fetch or write it again");
}

TEST(Weights, WithImpossibleShapesAreRefused) {
  Running<float> net(kTwo);
  for (const int64_t dim : {int64_t{-1}, int64_t{1} << 62}) {
    NetParameter source = net.Saved();
    BlobShape* shape = source.mutable_layer(1)->mutable_blobs(0)->mutable_shape();
    shape->set_dim(0, dim);
    shape->set_dim(1, dim);
    EXPECT_EQ(net.CopyError(source),
              "w.caffemodel: error: layer \"a\", parameter 0: 12 values do not fill its shape\n"
              "  fix: the file is damaged; fetch or write it again");
  }
}

TEST(Weights, OfDoublesAreReadByAFloatNet) {
  Running<double> from(kTwo, 1);
  Running<float> to(kTwo, 2);
  CopyWeights(to.stream, from.Saved(), "w", to.net);
  EXPECT_EQ(to.Values("a", 0)[0], static_cast<float>(from.Values("a", 0)[0]));
}

std::string ReadError(const std::string& path) {
  return ErrorText<DataError>([&] { ReadNetBinary(path); });
}

TEST(Weights, FilesThatAreNotWholeOrOfAnotherKindAreRefused) {
  const TestFolder folder;
  Running<float> net(kTwo);
  const std::string bytes = net.Saved().SerializeAsString();
  const std::string path = folder / "w.caffemodel";
  const auto expected = [&](size_t size) {
    return fmt::format(
        "{}: error: this is not a whole .caffemodel ({} bytes)\n  fix: the file is "
        "truncated or of another kind; fetch or write it again",
        path, size);
  };
  for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{1}, size_t{0}}) {
    WriteFileAtomically(path, bytes.substr(0, size));
    EXPECT_EQ(ReadError(path), expected(size));
  }
  WriteFileAtomically(path, "name: \"a prototxt\"");
  EXPECT_EQ(ReadError(path), expected(18));
  WriteFileAtomically(path, std::string("\x89HDF\r\n\x1a\n", 8) + bytes);
  EXPECT_EQ(ReadError(path), path +
                                 ": error: this is an HDF5 file, not a binaryproto .caffemodel\n"
                                 "  fix: give the weights as a binaryproto here");
}

TEST(Weights, ComeFromSeveralFilesInTurn) {
  const TestFolder folder;
  Running<float> one(Ip("a", "x", "h", "", 4), 1), two(Ip("b", "x", "y", "", 2), 2);
  Running<float> both(Ip("a", "x", "h", "", 4) + Ip("b", "x", "y", "", 2), 3);
  WriteFileAtomically(folder / "1", one.Saved().SerializeAsString());
  WriteFileAtomically(folder / "2", two.Saved().SerializeAsString());
  LoadWeights(both.stream, (folder / "1") + "," + (folder / "2"), both.net);
  EXPECT_EQ(both.Values("a", 0), one.Values("a", 0));
  EXPECT_EQ(both.Values("b", 0), two.Values("b", 0));
}

TEST(Weights, HashDependsOnEveryValue) {
  Running<float> net(kTwo);
  const uint64_t before = WeightsHash(net.stream, net.net);
  std::vector<float> bias = net.Values("b", 1);
  bias[1] += 1e-6f;
  net.net.FindLayerNamed("b")->blob(1).SetData(net.stream, bias);
  EXPECT_NE(WeightsHash(net.stream, net.net), before);
}

}  // namespace
}  // namespace carafe
