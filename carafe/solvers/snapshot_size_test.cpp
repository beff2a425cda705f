#include "carafe/solvers/snapshot_size.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "carafe/net/weights.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

// A net of side x side weights, without memory for them, and its solver.
template <typename T>
std::string SizeError(int side, const std::string& more) {
  const SolverSpec spec = ParseSolverSpec(
      fmt::format("lr_policy: \"fixed\" base_lr: 1\n{}\nnet_param {{\n"
                  "layer {{ name: \"in\" type: \"Input\" top: \"x\""
                  " input_param {{ shape {{ dim: 1 dim: {} }} }} }}\n"
                  "layer {{ name: \"ip\" type: \"InnerProduct\" bottom: \"x\" top: \"y\""
                  " inner_product_param {{ num_output: {} bias_term: false }} }}\n}}",
                  more, side, side),
      "s.prototxt");
  return ErrorText<ConfigError>([&] {
    const SolverNet train = TrainNetOf(spec);
    CheckSnapshotSize(spec, Net<T>(train.spec, train.state));
  });
}

TEST(SnapshotSize, OfWeightsBeyondTwoGibibytesIsRefusedWithoutAnyMemory) {
  EXPECT_EQ(SizeError<float>(40000, "snapshot: 100"),
            "s.prototxt:2:1: error: the .caffemodel of this net takes 5.96 GiB, and a binaryproto "
            "file holds less than 2\n  fix: use snapshot_format: HDF5");
  EXPECT_EQ(SizeError<float>(40000, "snapshot_format: BINARYPROTO").substr(0, 16),
            "s.prototxt:2:1: ");
}

TEST(SnapshotSize, CountsTheSecondHistoryOfAdam) {
  EXPECT_EQ(SizeError<float>(20000, "snapshot: 100"), "no error");
  EXPECT_EQ(SizeError<float>(20000, "snapshot: 100 type: \"Adam\""),
            "s.prototxt:2:1: error: the .solverstate of this net takes 2.98 GiB, and a binaryproto "
            "file holds less than 2\n  fix: use snapshot_format: HDF5");
}

TEST(SnapshotSize, CountsDoublesAndGradients) {
  EXPECT_NE(SizeError<double>(20000, "snapshot: 100"), "no error");
  EXPECT_NE(SizeError<float>(20000, "snapshot: 100 snapshot_diff: true"), "no error");
}

TEST(SnapshotSize, DoesNotMatterWithoutSnapshotsOrInHdf5) {
  EXPECT_EQ(SizeError<float>(40000, "snapshot_after_train: false"), "no error");
  EXPECT_EQ(SizeError<float>(40000, "snapshot: 100 snapshot_format: HDF5"), "no error");
}

TEST(SnapshotSize, IsNeverBelowTheFileThatIsWritten) {
  Stream stream;
  Net<float> net(ParseNetSpec("layer { name: \"in\" type: \"Input\" top: \"x\" input_param { shape "
                              "{ dim: 1 dim: 2 } } }\n"
                              "layer { name: \"a\" type: \"InnerProduct\" bottom: \"x\" top: \"y\""
                              " param { name: \"w\" } inner_product_param { num_output: 2 } }\n"
                              "layer { name: \"b\" type: \"InnerProduct\" bottom: \"y\" top: \"z\""
                              " param { name: \"w\" } inner_product_param { num_output: 2 } }\n",
                              "n.prototxt"),
                 NetState());
  net.Initialise(stream, 1);
  for (const bool diff : {false, true}) {
    const auto file = static_cast<int64_t>(ToNetParameter(stream, net, diff).ByteSizeLong());
    const int64_t bound = BinarySnapshotBytes(net, 1, diff).weights;
    EXPECT_GE(bound, file);
    EXPECT_LE(bound, file + 5000);
  }
}

}  // namespace
}  // namespace carafe
