#include "carafe/net/weights_hdf5.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "carafe/base/file.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/net/weights.h"
#include "tests/support/error_text.h"
#include "tests/support/hdf5_samples.h"
#include "tests/support/paths.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Ip(const std::string& name, const std::string& from, const std::string& to,
               const std::string& more, int outputs) {
  return fmt::format(
      "layer {{ name: \"{}\" type: \"InnerProduct\" bottom: \"{}\" top: \"{}\" {} "
      "inner_product_param {{ num_output: {} weight_filler {{ type: \"gaussian\" }} "
      "bias_filler {{ type: \"gaussian\" }} }} }}\n",
      name, from, to, more, outputs);
}

template <typename T>
struct Running {
  explicit Running(const std::string& layers, uint64_t seed = 1)
      : net(ParseNetSpec("layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape { "
                         "dim: 2 dim: 3 } } }\n" +
                             layers,
                         "n.prototxt"),
            NetState()) {
    net.Initialise(stream, seed);
  }
  uint64_t Hash() { return WeightsHash(stream, net); }
  std::vector<T> Values(const std::string& layer, int i) {
    return net.FindLayerNamed(layer)->blob(i).DataToHost(stream);
  }
  std::string LoadError(const std::string& path) {
    return ErrorText<DataError>([&] { LoadWeights(stream, path, net); });
  }
  Stream stream;
  Net<T> net;
};

const std::string kTwo = Ip("a", "x", "h", "", 4) + Ip("b", "h", "y", "", 2);
const std::string kShared =
    Ip("a", "x", "h", "param { name: \"w\" }", 3) + Ip("b", "h", "y", "param { name: \"w\" }", 3);

template <typename T>
class Hdf5WeightsOf : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Hdf5WeightsOf, Types);

TYPED_TEST(Hdf5WeightsOf, ANetReturnBitForBitWhateverTheNameOfTheFile) {
  const TestFolder folder;
  for (const std::string& layers : {kTwo, kShared}) {
    Running<TypeParam> from(layers, 1), to(layers, 2);
    WriteWeightsHdf5(from.stream, from.net, false, folder / "w.caffemodel");
    EXPECT_NE(from.Hash(), to.Hash());
    LoadWeights(to.stream, folder / "w.caffemodel", to.net);
    EXPECT_EQ(from.Hash(), to.Hash());
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder / "")) {
    EXPECT_EQ(entry.path(), folder / "w.caffemodel");  // nothing temporary
  }
}

TEST(Hdf5Weights, HaveAGroupForEveryLayerAndParametersAtTheirOwners) {
  const TestFolder folder;
  Running<float> net(kShared + Ip("c", "h", "z", "", 1));
  WriteWeightsHdf5(net.stream, net.net, true, folder / "w.h5");
  const Hdf5File file(folder / "w.h5");
  EXPECT_THAT(file.Members("/"), ElementsAre("data", "diff"));
  EXPECT_THAT(file.Members("data"), ElementsAre("a", "b", "c", "h_a_0_split", "in"));
  EXPECT_THAT(file.Members("data/in"), ElementsAre());
  EXPECT_THAT(file.Members("data/a"), ElementsAre("0", "1"));
  EXPECT_THAT(file.Members("data/b"), ElementsAre("1"));
  EXPECT_THAT(file.Members("diff/b"), ElementsAre("0", "1"));
  EXPECT_EQ(file.DatasetShape("data/c/0"), (Shape{1, 3}));
  EXPECT_EQ(file.Read<float>("data/c/0"), net.Values("c", 0));
  WriteWeightsHdf5(net.stream, net.net, false, folder / "w.h5");
  EXPECT_THAT(Hdf5File(folder / "w.h5").Members("/"), ElementsAre("data"));
}

TEST(Hdf5Weights, OfDoubleNetsLoadIntoFloatNetsAndBack) {
  const TestFolder folder;
  Running<double> wide(kTwo, 1), back(kTwo, 2);
  Running<float> narrow(kTwo, 3);
  WriteWeightsHdf5(wide.stream, wide.net, false, folder / "w.h5");
  LoadWeights(narrow.stream, folder / "w.h5", narrow.net);
  EXPECT_EQ(narrow.Values("a", 0)[0], static_cast<float>(wide.Values("a", 0)[0]));
  WriteWeightsHdf5(narrow.stream, narrow.net, false, folder / "n.h5");
  LoadWeights(back.stream, folder / "n.h5", back.net);
  EXPECT_EQ(back.Values("b", 1)[0], narrow.Values("b", 1)[0]);
}

TEST(Hdf5Weights, AreCopiedByLayerNameAndListedWithOthers) {
  const TestFolder folder;
  Running<float> from(kTwo, 1), more(Ip("fresh", "x", "y", "", 5), 4);
  Running<float> to(Ip("a", "x", "h", "", 4) + Ip("new", "h", "y", "", 5), 2);
  const std::vector<float> before = to.Values("new", 0);
  WriteWeightsHdf5(from.stream, from.net, false, folder / "w.h5");
  WriteFileAtomically(folder / "v.caffemodel",
                      ToNetParameter(more.stream, more.net, false).SerializeAsString());
  ::testing::internal::CaptureStderr();
  LoadWeights(to.stream, (folder / "w.h5") + "," + (folder / "v.caffemodel"), to.net);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(to.Values("a", 0), from.Values("a", 0));
  EXPECT_EQ(to.Values("new", 0), before);
  EXPECT_THAT(log, HasSubstr("Ignoring source layer b\n"));
  EXPECT_THAT(log, HasSubstr("Ignoring source layer fresh\n"));
  EXPECT_THAT(log, Not(HasSubstr("Ignoring source layer a\n")));
}

TEST(Hdf5Weights, KeepLayerNamesThatHdf5DoesNotAllow) {
  for (const std::string name : {"", ".", "..", "/", "a/b", "//", "50%", "%2F", "%252F", "%00",
                                 "%2", "%/2F", "a.b", "%%2E"}) {
    const std::string group = Hdf5LayerName(name);
    EXPECT_EQ(LayerNameOfHdf5(group), name);
    EXPECT_EQ(group.find('/'), std::string::npos);
    EXPECT_NE(group, ".");
    EXPECT_FALSE(group.empty());
  }
  EXPECT_EQ(Hdf5LayerName("inception_3a/1x1"), "inception_3a%2F1x1");
  EXPECT_EQ(Hdf5LayerName("a.b 50%"), "a.b 50%");  // as the original has them
  const TestFolder folder;
  const std::string layers = Ip("s", "x", "h", "", 3) + Ip("s/1x1", "h", "g", "", 3) +
                             Ip("", "g", "f", "", 3) + Ip(".", "f", "e", "", 3) +
                             Ip("s%2F1x1", "e", "y", "", 3);
  Running<float> from(layers, 1), to(layers, 2);
  WriteWeightsHdf5(from.stream, from.net, true, folder / "w.h5");
  LoadWeights(to.stream, folder / "w.h5", to.net);
  EXPECT_EQ(from.Hash(), to.Hash());
}

TEST(Hdf5Weights, MayLieInGroupsWithinGroups) {
  const TestFolder folder;
  AddHdf5Numbers(folder / "w.h5", "data/s/0", {1, 3}, {1, 2, 3});
  AddHdf5Numbers(folder / "w.h5", "data/s/1", {1}, {4});
  AddHdf5Numbers(folder / "w.h5", "data/s/1x1/0", {2, 1}, {5, 6}, Stored::kFloat64);
  AddHdf5Numbers(folder / "w.h5", "data/s/1x1/1", {2}, {7, 8});
  Running<float> net(Ip("s", "x", "h", "", 1) + Ip("s/1x1", "h", "y", "", 2));
  LoadWeights(net.stream, folder / "w.h5", net.net);
  EXPECT_THAT(net.Values("s", 0), ElementsAre(1, 2, 3));
  EXPECT_THAT(net.Values("s/1x1", 0), ElementsAre(5, 6));
  EXPECT_THAT(net.Values("s/1x1", 1), ElementsAre(7, 8));
}

TEST(Hdf5Weights, OfTheOriginalLoad) {
  const std::string folder = SourceDir() + "/tests/golden/formats/models/";
  Stream stream;
  Net<float> plain(LoadNetSpec(folder + "m_convnet.prototxt"), NetState()),
      hdf5(LoadNetSpec(folder + "m_convnet.prototxt"), NetState());
  plain.Initialise(stream, 1);
  hdf5.Initialise(stream, 2);
  LoadWeights(stream, folder + "m_convnet.caffemodel", plain);
  LoadWeights(stream, folder + "m_convnet.caffemodel.h5", hdf5);
  EXPECT_EQ(WeightsHash(stream, plain), WeightsHash(stream, hdf5));
}

TEST(Hdf5Weights, ThatDoNotFitAreRefusedAndChangeNothing) {
  const TestFolder folder;
  const auto write = [&](const std::string& layers) {
    Running<float> net(layers, 7);
    WriteWeightsHdf5(net.stream, net.net, false, folder / "w.h5");
    return folder / "w.h5";
  };
  Running<float> net(kTwo), shared(kShared);
  const uint64_t before = net.Hash();
  EXPECT_EQ(net.LoadError(write(Ip("a", "x", "h", "", 4) + Ip("b", "h", "y", "", 3))),
            (folder / "w.h5") +
                ": error: layer \"b\", parameter 0: the file has shape 3 4 (12), the net 2 4 (8)\n"
                "  fix: rename the layer in the net to train it from the start");
  EXPECT_EQ(net.Hash(), before);
  // Parameters may be missing only where the net shares them.
  std::filesystem::remove(folder / "w.h5");
  AddHdf5Numbers(folder / "w.h5", "data/b/1", {2}, {7, 8});
  EXPECT_EQ(net.LoadError(folder / "w.h5"),
            (folder / "w.h5") +
                ": error: layer \"b\" has 1 parameters in the file and 2 in the net\n"
                "  fix: rename the layer in the net to train it from the start");
  std::filesystem::remove(folder / "w.h5");
  AddHdf5Numbers(folder / "w.h5", "data/b/1", {3}, {7, 8, 9});
  EXPECT_EQ(shared.LoadError(folder / "w.h5"), "no error");
  EXPECT_THAT(shared.Values("b", 1), ElementsAre(7, 8, 9));
  AddHdf5Numbers(folder / "w.h5", "data/b/2", {3}, {7, 8, 9});
  EXPECT_THAT(shared.LoadError(folder / "w.h5"),
              HasSubstr("layer \"b\" has 2 parameters in the file and 1 in the net"));
}

TEST(Hdf5Weights, ThatAreNoWeightsAreRefused) {
  const TestFolder folder;
  Running<float> net(kTwo);
  AddHdf5Numbers(folder / "x.h5", "x", {1}, {1});
  EXPECT_EQ(net.LoadError(folder / "x.h5"),
            (folder / "x.h5") +
                ": error: this HDF5 file holds no weights: it has no group \"data\"\n"
                "  fix: give a .caffemodel.h5");
  EXPECT_THAT(ErrorText<DataError>([&] { CheckWeightsHdf5(folder / "x.h5"); }),
              HasSubstr("holds no weights"));
  AddHdf5Strings(folder / "y.h5", "data/a/0", {4, 3});
  EXPECT_THAT(net.LoadError(folder / "y.h5"),
              HasSubstr("y.h5: error: dataset \"data/a/0\" holds strings, not numbers"));
  WriteWeightsHdf5(net.stream, net.net, false, folder / "w.h5");
  const std::string whole = ReadFile(folder / "w.h5");
  WriteFileAtomically(folder / "cut.h5", whole.substr(0, whole.size() - 100));
  EXPECT_THAT(net.LoadError(folder / "cut.h5"),
              HasSubstr("cut.h5: error: the HDF5 file cannot be opened: truncated file"));
  EXPECT_THAT(net.LoadError(folder / "none.h5"), HasSubstr("the file cannot be read"));
}

TEST(Hdf5Weights, OfTwoLayersWithOneNameAreRefusedBeforeTheyAreWritten) {
  const TestFolder folder;
  Running<float> net(Ip("a", "x", "h", "", 3) + "\n" + Ip("a", "h", "y", "", 3));
  EXPECT_THAT(ErrorText<ConfigError>(
                  [&] { WriteWeightsHdf5(net.stream, net.net, false, folder / "w.h5"); }),
              HasSubstr("layer \"a\" (InnerProduct): another layer has this name, too, and HDF5 "
                        "keeps weights by name\n  fix: "));
  EXPECT_FALSE(std::filesystem::exists(folder / "w.h5"));
}

TEST(Hdf5Weights, ThatCannotBeWrittenLeaveNothing) {
  const TestFolder folder;
  Running<float> net(kTwo);
  EXPECT_THAT(ErrorText<DataError>(
                  [&] { WriteWeightsHdf5(net.stream, net.net, false, folder / "no/w.h5"); }),
              HasSubstr("opening for writing failed: "));
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace
}  // namespace carafe
