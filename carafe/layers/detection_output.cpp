// The boxes that SSD finds: predictions decoded by their priors, per class those of a score above
// confidence_threshold that no better box overlaps, and of all classes the keep_top_k best.
//   bottoms: offsets (N, P L 4), scores (N, P classes), priors (1, 2, 4 P), or (1, 1, 4 P) without
//   variances where they are encoded in the target; L is 1 with share_location, else the number of
//   classes. With normalized_bbox: false the priors are in pixels (Faster R-CNN as OpenCV has it).
//   top: (1, 1, boxes, 7): image, class, score, x1, y1, x2, y2; how many boxes there are is known
//   only in Forward. Without any: one row per image, all -1 but for the image.
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <vector>

#include "carafe/layers/boxes.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

struct Detection {
  int label = 0;
  float score = 0;
  Corners box;
};

template <typename T>
std::vector<float> Floats(const Blob<T>& blob, Stream& stream) {
  const std::vector<T> values = blob.DataToHost(stream);
  return {values.begin(), values.end()};
}

template <typename T>
class DetectionOutput final : public Layer<T> {
 public:
  explicit DetectionOutput(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(ForkPart<ForkLayerParameter>(spec.param()).detection_output_param()),
        classes_(param_.num_classes()),
        locations_(param_.share_location() ? 1 : classes_) {
    const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
      spec.Check(condition, "detection_output_param", what, fix);
    };
    check(classes_ > 0, "num_classes is 0 or missing", "give the classes with the background");
    check(param_.nms_param().nms_threshold() >= 0,
          fmt::format("nms_threshold is {}", param_.nms_param().nms_threshold()), "use 0 or more");
    check(param_.nms_param().eta() > 0 && param_.nms_param().eta() <= 1,
          fmt::format("eta is {}", param_.nms_param().eta()), "use a number above 0, at most 1");
    check(param_.save_output_param().output_directory().empty(),
          "files of detections (save_output_param) are not written",
          "remove save_output_param, and write the top from Python");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const int64_t images = bottom[0].LegacyDim(0), per_prior = NumbersPerPrior(bottom[2]);
    const int64_t priors = bottom[2].Count() / per_prior;
    const auto check = [&](int index, int64_t expected, const char* what) {
      const Shape& shape = bottom[static_cast<size_t>(index)];
      this->spec().Check(shape.Count() == images * expected, fmt::format("bottom[{}]", index),
                         fmt::format("{} are {}, but {} priors and {} images need {} x {}", what,
                                     shape.ToString(), priors, images, images, expected),
                         "give offsets, scores and priors of the same features");
    };
    this->spec().Check(bottom[2].Count() % per_prior == 0, "bottom[2]",
                       fmt::format("priors have 4 corners and 4 variances each, these are {}",
                                   bottom[2].ToString()),
                       "give the top of PriorBox layers, joined along axis 2");
    check(0, priors * locations_ * 4, "the offsets");
    check(1, priors * classes_, "the scores");
    return {Shape{1, 1, 1, 7}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const std::vector<float> offsets = Floats(*bottom[0], stream);
    const std::vector<float> scores = Floats(*bottom[1], stream);
    const std::vector<float> priors = Floats(*bottom[2], stream);
    const int64_t images = bottom[0]->shape().LegacyDim(0),
                  count = bottom[2]->count() / NumbersPerPrior(bottom[2]->shape());
    std::vector<T> rows;
    for (int64_t n = 0; n < images; ++n) {
      const float* of_image = offsets.data() + n * count * locations_ * 4;
      for (const Detection& found :
           Detect(count, of_image, scores.data() + n * count * classes_, priors.data())) {
        for (const float value :
             {static_cast<float>(n), static_cast<float>(found.label), found.score, found.box.x1,
              found.box.y1, found.box.x2, found.box.y2}) {
          rows.push_back(static_cast<T>(value));
        }
      }
    }
    if (rows.empty()) {
      rows.assign(static_cast<size_t>(images) * 7, T(-1));
      for (int64_t n = 0; n < images; ++n) rows[static_cast<size_t>(n) * 7] = static_cast<T>(n);
    }
    top[0]->Reshape({1, 1, static_cast<int64_t>(rows.size()) / 7, 7});
    top[0]->SetData(stream, rows);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    for (const bool asked : propagate_down) {
      this->spec().Check(!asked, "propagate_down", "the boxes found have no gradient",
                         "include the layer in TEST only");
    }
  }
  bool AllowForceBackward(int) const override { return false; }

 private:
  int64_t NumbersPerPrior(const Shape& priors) const {
    const bool corners =
        param_.variance_encoded_in_target() && priors.rank() == 3 && priors[1] == 1;
    return corners ? 4 : 8;
  }
  // Of one image, class by class, best first.
  std::vector<Detection> Detect(int64_t count, const float* offsets, const float* scores,
                                const float* priors) const {
    const Suppression settings{
        .score_above = param_.has_confidence_threshold() ? param_.confidence_threshold() : -FLT_MAX,
        .most_overlap = param_.nms_param().nms_threshold(),
        .candidates = param_.nms_param().has_top_k() ? param_.nms_param().top_k() : -1,
        .eta = param_.nms_param().eta(),
        .unit = param_.normalized_bbox() ? BoxUnit::kPart : BoxUnit::kPixel};
    std::vector<Detection> found;
    std::vector<Corners> boxes;
    for (int label = 0; label < classes_; ++label) {
      if (label == param_.background_label_id()) continue;
      if (boxes.empty() || !param_.share_location()) {
        boxes = Boxes(count, param_.share_location() ? 0 : label, offsets, priors);
      }
      std::vector<float> of_class(static_cast<size_t>(count));
      for (int64_t p = 0; p < count; ++p) {
        of_class[static_cast<size_t>(p)] = scores[p * classes_ + label];
      }
      for (const int i : Suppress(boxes, of_class, settings)) {
        found.push_back({label, At(of_class, i), At(boxes, i)});
      }
    }
    if (param_.keep_top_k() >= 0 && Count(found) > param_.keep_top_k()) {
      std::ranges::stable_sort(found, std::greater<>{}, &Detection::score);
      found.resize(static_cast<size_t>(param_.keep_top_k()));
      std::ranges::stable_sort(found, std::less<>{}, &Detection::label);
    }
    return found;
  }
  std::vector<Corners> Boxes(int64_t count, int location, const float* offsets,
                             const float* priors) const {
    constexpr float kOnes[] = {1, 1, 1, 1};
    std::vector<Corners> boxes;
    for (int64_t p = 0; p < count; ++p) {
      const float* variances =
          param_.variance_encoded_in_target() ? kOnes : priors + (count + p) * 4;
      Corners box = Decode(param_.code_type(), priors + p * 4, variances,
                           offsets + (p * locations_ + location) * 4,
                           param_.normalized_bbox() ? BoxUnit::kPart : BoxUnit::kPixel);
      if (param_.clip() && param_.normalized_bbox()) {
        for (float* side : {&box.x1, &box.y1, &box.x2, &box.y2}) {
          *side = std::clamp(*side, 0.0F, 1.0F);
        }
      }
      boxes.push_back(box);
    }
    return boxes;
  }
  const DetectionOutputParameter param_;
  const int64_t classes_, locations_;
};

const RegisterLayer<DetectionOutput> kRegistered{
    {.type = "DetectionOutput",
     .bottoms = {3, 3},
     .tops = {1, 1},
     .summary = "Decodes predictions into boxes and keeps the best that do not overlap (SSD)."}};

}  // namespace
}  // namespace carafe
