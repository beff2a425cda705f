// Says of each box that a detector has found whether it is right, for the mean average precision
// (train/detection_score.h; solver `eval_type: "detection"`). In each image and class boxes are
// taken best first: one that overlaps a given box by overlap_threshold or more is right if that box
// has not been found before; every other is wrong. Given boxes that are difficult count only with
// evaluate_difficult_gt; one that finds them is neither right nor wrong.
//   bottoms: found (1, 1, F, 7) as of DetectionOutput, given (1, 1, G, 8) as of AnnotatedData
//   top (1, 1, classes - 1 + F, 5): for each class but the background  -1, class, number of given
//   boxes, -1, -1;  for each box found  image, class, score, 1 if right, 1 if wrong. How many boxes
//   there are is known only in Forward.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "carafe/core/corners.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

struct Given {
  Corners corners;
  bool difficult = false;
  bool found = false;
};
struct Found {
  float score = 0;
  Corners corners;
};
using ImageAndClass = std::pair<int, int>;

template <typename T>
class DetectionEvaluate final : public Layer<T> {
 public:
  explicit DetectionEvaluate(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(ForkPart<ForkLayerParameter>(spec.param()).detection_evaluate_param()) {
    const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
      spec.Check(condition, "detection_evaluate_param", what, fix);
    };
    check(param_.num_classes() > 1, fmt::format("num_classes is {}", param_.num_classes()),
          "give the classes with the background");
    check(param_.overlap_threshold() > 0,
          fmt::format("overlap_threshold is {}", param_.overlap_threshold()), "use e.g. 0.5");
    check(param_.name_size_file().empty(),
          "name_size_file is not read: boxes are compared as parts of the image, not in pixels",
          "remove it, and resize_param with it");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const auto check = [&](size_t i, int64_t numbers, const char* what, const char* fix) {
      this->spec().Check(
          bottom[i].rank() == 4 && bottom[i][3] == numbers, fmt::format("bottom[{}]", i),
          fmt::format("{} have {} numbers each, these are {}", what, numbers, bottom[i].ToString()),
          fix);
    };
    check(0, 7, "boxes found", "give the top of DetectionOutput");
    check(1, 8, "given boxes", "give the second top of AnnotatedData");
    return {Shape{1, 1, Classes() + bottom[0][2], 5}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    std::map<int, int> counts;
    auto given = GivenBoxes(bottom[1]->DataToHost(run.stream), &counts);
    std::vector<T> rows;
    const auto add = [&](std::initializer_list<float> numbers) {
      for (const float number : numbers) rows.push_back(static_cast<T>(number));
    };
    for (int c = 0; c < static_cast<int>(param_.num_classes()); ++c) {
      if (c == Background()) continue;
      add({-1, static_cast<float>(c), static_cast<float>(counts[c]), -1, -1});
    }
    for (auto& [key, boxes] : FoundBoxes(bottom[0]->DataToHost(run.stream))) {
      std::ranges::stable_sort(boxes, std::greater<>{}, &Found::score);
      for (const Found& box : boxes) {
        const auto [right, wrong] = Judge(box.corners, &given[key]);
        add({static_cast<float>(key.first), static_cast<float>(key.second), box.score,
             right ? 1.0F : 0.0F, wrong ? 1.0F : 0.0F});
      }
    }
    top[0]->Reshape({1, 1, static_cast<int64_t>(rows.size()) / 5, 5});
    top[0]->SetData(run.stream, rows);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    for (const bool asked : propagate_down) {
      this->spec().Check(!asked, "propagate_down", "a score of boxes has no gradient",
                         "include the layer in TEST only");
    }
  }
  bool AllowForceBackward(int) const override { return false; }

 private:
  int Background() const { return static_cast<int>(param_.background_label_id()); }
  int64_t Classes() const {
    return param_.num_classes() - (param_.background_label_id() < param_.num_classes() ? 1 : 0);
  }
  std::map<ImageAndClass, std::vector<Given>> GivenBoxes(const std::vector<T>& rows,
                                                         std::map<int, int>* counts) const {
    std::map<ImageAndClass, std::vector<Given>> boxes;
    for (size_t r = 0; r + 8 <= rows.size(); r += 8) {
      const auto number = [&](size_t i) { return static_cast<float>(rows[r + i]); };
      if (number(0) < 0) continue;
      const bool difficult = number(7) != 0;
      const int label = static_cast<int>(number(1));
      boxes[{static_cast<int>(number(0)), label}].push_back(
          {{number(3), number(4), number(5), number(6)}, difficult, false});
      if (!difficult || param_.evaluate_difficult_gt()) ++(*counts)[label];
    }
    return boxes;
  }
  // Without the rows of class -1 that stand for images without any.
  static std::map<ImageAndClass, std::vector<Found>> FoundBoxes(const std::vector<T>& rows) {
    std::map<ImageAndClass, std::vector<Found>> boxes;
    for (size_t r = 0; r + 7 <= rows.size(); r += 7) {
      const auto number = [&](size_t i) { return static_cast<float>(rows[r + i]); };
      if (number(0) < 0 || number(1) < 0) continue;
      boxes[{static_cast<int>(number(0)), static_cast<int>(number(1))}].push_back(
          {number(2), {number(3), number(4), number(5), number(6)}});
    }
    return boxes;
  }
  // Whether a box is right, and whether it is wrong.
  std::pair<bool, bool> Judge(const Corners& box, std::vector<Given>* given) const {
    Given* best = nullptr;
    float most = -1;
    for (Given& one : *given) {
      const float overlap = Overlap(Clipped(box), one.corners);
      if (overlap <= most) continue;
      most = overlap;
      best = &one;
    }
    if (best == nullptr || most < param_.overlap_threshold()) return {false, true};
    if (best->difficult && !param_.evaluate_difficult_gt()) return {false, false};
    const bool again = std::exchange(best->found, true);
    return {!again, again};
  }
  static Corners Clipped(const Corners& box) {
    const auto part = [](float x) { return std::clamp(x, 0.0F, 1.0F); };
    return {part(box.x1), part(box.y1), part(box.x2), part(box.y2)};
  }
  const DetectionEvaluateParameter param_;
};

const RegisterLayer<DetectionEvaluate> kRegistered{
    {.type = "DetectionEvaluate",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "Says which boxes of a detector are right, for the average precision (SSD)."}};

}  // namespace
}  // namespace carafe
