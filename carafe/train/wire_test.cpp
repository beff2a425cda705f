// Training with encoded gradients (--wire): replicas, bits, resuming, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/train/trainer.h"
#include "tests/support/error_text.h"
#include "tests/support/host_of_rank.h"
#include "tests/support/small_training.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;

constexpr char kNothingElse[] = " test_initialization: false snapshot_after_train: false";

class WireTest : public SmallTraining {
 protected:
  static TrainOptions With(const std::string& wire, const std::string& exchange = "allreduce") {
    TrainOptions options = Quiet();
    options.wire = wire;
    options.exchange = exchange;
    return options;
  }
};

// Train compares the replicas, the trainer their hashes.
TEST_F(WireTest, SameBitsByEveryExchangeBucketAndOverlapNearThoseOfFp32) {
  const std::string settings = "momentum: 0.9 weight_decay: 0.01 iter_size: 2 clip_gradients: 0.5";
  for (const char* wire : {"bf16", "fp16"}) {
    const SolverSpec spec = Spec(3, settings + kNothingElse, 20);
    const Weights<float> plain = Train<float>(3, spec, With("fp32"));
    const Weights<float> first = Train<float>(3, spec, With(wire));
    EXPECT_NE(first, plain) << wire;
    EXPECT_LE(Difference(plain, first), 0.02) << wire;
    for (const char* exchange : {"allreduce", "server", "tree"})
      for (const bool overlap : {true, false}) {
        TrainOptions options = With(wire, exchange);
        options.bucket_mb = 1e-3;  // the first run has measured its buckets after 5 iterations
        options.overlap = overlap;
        EXPECT_EQ(Train<float>(3, spec, options), first) << wire << " " << exchange;
      }
  }
}

TEST_F(WireTest, WorkersAndHostsKeepReplicasEqual) {
  const SolverSpec spec = Spec(3, std::string("momentum: 0.9") + kNothingElse);
  const std::vector<std::string> hosts = {"a", "a", "a", "b", "b"};
  for (const char* wire : {"bf16", "topk:0.1"}) {
    TrainOptions options = With(wire);
    options.workers = 2;
    const Weights<float> first = Train<float>(5, spec, options, OnHosts(hosts));
    options.exchange = "server";
    const Weights<float> server = Train<float>(5, spec, options, OnHosts(hosts));
    if (std::string(wire) == "bf16") {
      EXPECT_EQ(first, server);
    }
  }
}

TEST_F(WireTest, ResumesWithTheBitsOfTheUninterruptedRun) {
  for (const char* format : {"BINARYPROTO", "HDF5"})
    for (const char* wire : {"bf16", "topk:0.1"})
      for (const std::vector<std::string>& hosts :
           {std::vector<std::string>{"a", "a", "a"}, {"a", "b", "b"}}) {
        const std::string settings = fmt::format(
            "momentum: 0.9 test_initialization: false snapshot: 7 snapshot_format: {}", format);
        TrainOptions options = With(wire);
        options.bucket_mb = 1e-3;
        const Weights<float> whole =
            Train<float>(3, Spec(3, settings, 14), options, OnHosts(hosts));
        options.snapshot = (folder_ / "snap_iter_7.solverstate").string() +
                           (std::string(format) == "HDF5" ? ".h5" : "");
        const Weights<float> resumed =
            Train<float>(3, Spec(3, settings, 14), options, OnHosts(hosts));
        EXPECT_EQ(resumed, whole) << wire << " " << format;
        // Residuals matter: without them the run goes another way.
        options.wire = "fp32";
        EXPECT_NE(Train<float>(3, Spec(3, settings, 14), options, OnHosts(hosts)), whole);
        options.wire = wire;
        // On other ranks, and on one.
        for (int ranks : {1, 2}) Train<float>(ranks, Spec(3, settings, 14), options);
      }
}

TEST_F(WireTest, SnapshotsChangeNothing) {
  const Weights<float> without =
      Train<float>(3, Spec(3, std::string("momentum: 0.9") + kNothingElse), With("bf16"));
  EXPECT_EQ(Train<float>(3, Spec(3, "momentum: 0.9 test_initialization: false snapshot: 3"),
                         With("bf16")),
            without);
}

TEST_F(WireTest, ABadLossIsNoticed) {
  for (const char* wire : {"bf16", "fp16", "topk:0.1"}) {
    SolverSpec spec = Spec(3, std::string("momentum: 0.9") + kNothingElse);
    spec.param.set_base_lr(1e30f);
    const std::string error = ErrorText<Error>([&] { Train<float>(2, spec, With(wire)); });
    EXPECT_THAT(error, HasSubstr("loss")) << wire;
  }
}

TEST_F(WireTest, RefusesWhatItCannotEncodeWithARemedy) {
  const SolverSpec spec = Spec(3, kNothingElse);
  for (int ranks : {1, 2}) {
    EXPECT_THAT(ErrorText<Error>([&] { Train<float>(ranks, spec, With("int8")); }),
                HasSubstr("use fp32, bf16, fp16, or topk:R"));
    TrainOptions late = With("bf16", "server");
    late.exchange_timeout = 60;
    EXPECT_THAT(ErrorText<Error>([&] { Train<float>(ranks, spec, late); }),
                HasSubstr("remove --exchange_timeout, or use --wire=fp32"));
  }
  EXPECT_THAT(ErrorText<Error>([&] { Train<double>(2, spec, With("bf16")); }),
              HasSubstr("train in single precision, or use --wire=fp32"));
}

}  // namespace
}  // namespace carafe
