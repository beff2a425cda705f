// The mean average precision by hand, and a small SSD that learns to find drawn squares.
#include "carafe/train/detection_score.h"

#include <gtest/gtest.h>

#include <mutex>

#include "carafe/comm/run_ranks.h"
#include "carafe/data/database_writer.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/train/trainer.h"
#include "tests/support/small_training.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

// Of 4 boxes: right, wrong, right; recalls 0.25, 0.25, 0.5 with precisions 1, 1/2, 2/3.
TEST(AveragePrecision, IsThatOfVoc) {
  const ClassDetections seen{4, {{0.5, true}, {0.9, true}, {0.7, false}}};
  EXPECT_NEAR(AveragePrecision(seen, "11point"), (3 * 1 + 3 * 2.0 / 3) / 11, 1e-12);
  EXPECT_NEAR(AveragePrecision(seen, "MaxIntegral"), 0.25 * 1 + 0.25 * 2 / 3, 1e-12);
  EXPECT_NEAR(AveragePrecision({2, {{3, false}, {2, true}, {1, true}}}, "Integral"),
              0.5 * 0.5 + 0.5 * 2 / 3, 1e-12);
  EXPECT_NEAR(AveragePrecision({2, {{3, false}, {2, true}, {1, true}}}, "MaxIntegral"), 2.0 / 3,
              1e-12);
  EXPECT_EQ(AveragePrecision({4, {}}, "11point"), 0);
}

// Images of 16 x 16 with one white square of 8 x 8 in one of four corners.
void WriteSquares(const std::string& path) {
  auto writer = NewDatabaseWriter("lmdb", path);
  for (int i = 0; i < 8; ++i) {
    const int top = i % 2 * 8, left = i / 2 % 2 * 8;
    std::string pixels(256, '\0');
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) pixels[static_cast<size_t>((top + y) * 16 + left + x)] = '\xff';
    }
    AnnotatedDatum datum;
    datum.mutable_datum()->set_channels(1);
    datum.mutable_datum()->set_height(16);
    datum.mutable_datum()->set_width(16);
    datum.mutable_datum()->set_data(pixels);
    datum.set_type(AnnotatedDatum::BBOX);
    AnnotationGroup* group = datum.add_annotation_group();
    group->set_group_label(1);
    NormalizedBBox* box = group->add_annotation()->mutable_bbox();
    box->set_xmin(static_cast<float>(left) / 16);
    box->set_ymin(static_cast<float>(top) / 16);
    box->set_xmax(static_cast<float>(left + 8) / 16);
    box->set_ymax(static_cast<float>(top + 8) / 16);
    writer->Put(std::to_string(i), datum.SerializeAsString());
  }
  writer->Finish();
}

std::string Heads() {
  const auto head = [](const std::string& name, int outputs) {
    return "layer { name: '" + name + "' type: 'Convolution' bottom: 'f' top: '" + name +
           "' convolution_param { num_output: " + std::to_string(outputs) +
           " kernel_size: 1 weight_filler { type: 'xavier' } } }"
           "layer { name: '" +
           name + "_p' type: 'Permute' bottom: '" + name + "' top: '" + name +
           "_p' permute_param { order: [0, 2, 3, 1] } }"
           "layer { name: '" +
           name + "_f' type: 'Flatten' bottom: '" + name + "_p' top: '" + name + "_f' }";
  };
  return head("loc", 4) + head("conf", 2) +
         "layer { name: 'prior' type: 'PriorBox' bottom: 'f' bottom: 'data' top: 'prior' "
         "prior_box_param { min_size: 9 variance: [0.1, 0.1, 0.2, 0.2] } }";
}

SolverSpec Detector(const std::string& database) {
  const std::string data =
      "layer { name: 'data' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '" +
      database + "' backend: LMDB batch_size: 4 } transform_param { scale: 0.004 } }";
  const std::string features =
      "layer { name: 'f' type: 'Convolution' bottom: 'data' top: 'f' convolution_param { "
      "num_output: 8 kernel_size: 8 stride: 8 weight_filler { type: 'xavier' } } }"
      "layer { name: 'relu' type: 'ReLU' bottom: 'f' top: 'f' }";
  const std::string train =
      "layer { name: 'loss' type: 'MultiBoxLoss' bottom: 'loc_f' bottom: 'conf_f' bottom: 'prior' "
      "bottom: 'label' top: 'loss' include { phase: TRAIN } multibox_loss_param { num_classes: 2 "
      "code_type: CENTER_SIZE } }";
  const std::string test =
      "layer { name: 'r' type: 'Reshape' bottom: 'conf_f' top: 'r' include { phase: TEST } "
      "reshape_param { shape { dim: [0, -1, 2] } } }"
      "layer { name: 's' type: 'Softmax' bottom: 'r' top: 's' include { phase: TEST } "
      "softmax_param { axis: 2 } }"
      "layer { name: 'sf' type: 'Flatten' bottom: 's' top: 'sf' include { phase: TEST } }"
      "layer { name: 'out' type: 'DetectionOutput' bottom: 'loc_f' bottom: 'sf' bottom: 'prior' "
      "top: 'out' include { phase: TEST } detection_output_param { num_classes: 2 code_type: "
      "CENTER_SIZE confidence_threshold: 0.05 keep_top_k: 10 nms_param { nms_threshold: 0.45 } } }"
      "layer { name: 'eval' type: 'DetectionEvaluate' bottom: 'out' bottom: 'label' top: 'eval' "
      "include { phase: TEST } detection_evaluate_param { num_classes: 2 } }";
  return ParseSolverSpec(
      "net_param { " + data + features + Heads() + train + test +
          " } base_lr: 0.01 momentum: 0.9 lr_policy: 'fixed' max_iter: 60 test_iter: 3 "
          "test_interval: 1000 test_initialization: false random_seed: 3 snapshot: 0 "
          "snapshot_after_train: false eval_type: 'detection' ap_version: '11point'",
      "s.prototxt");
}

TEST(DetectionTest, AnSsdLearnsToFindSquaresAndScoresTheSameOnAnyRanks) {
  const TestFolder folder;
  WriteSquares(folder / "squares");
  std::mutex mutex;
  std::vector<double> before, after;
  for (const int ranks : {1, 2}) {
    RunRanks(ranks, [&](Group& group) {
      Stream stream;
      Trainer<float> trainer(Detector(folder / "squares"), Quiet(), group, stream);
      const auto untrained = trainer.TestAll();
      trainer.Step(60);
      const auto trained = trainer.TestAll();
      if (group.rank() != 0) return;
      const std::lock_guard lock(mutex);
      ASSERT_EQ(trained[0].scores.size(), 1u);
      before.push_back(untrained[0].scores[0].value);
      after.push_back(trained[0].scores[0].value);
    });
  }
  EXPECT_EQ(before[0], before[1]);  // the same weights and batches
  EXPECT_LT(before[0], 0.9);
  EXPECT_GT(after[0], 0.95);
  EXPECT_GT(after[1], 0.95);
}

}  // namespace
}  // namespace carafe
