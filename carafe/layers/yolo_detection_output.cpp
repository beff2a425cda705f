// The boxes that YOLO finds (MobileNet-YOLO's layers, by Darknet's definitions). A bottom has for
// each of A anchors (w, h) and each feature (i, j) the numbers x, y, w', h', objectness and one per
// class:
//   centre ((j + s(x)) / W, (i + s(y)) / H), size (w exp(w'), h exp(h')), s the logistic function
//   score = s(objectness) times the best class's probability
//   YoloDetectionOutput (v2): anchors in features (biases / W, / H), probabilities by softmax
//   Yolov3DetectionOutput: several bottoms; bottom t has anchors mask[t A ..], in pixels of an
//   input of anchors_scale[t] times its size; probabilities by s
// Of a score of at least confidence_threshold, those that no better box of their class overlaps by
// more than nms_threshold.
//   bottoms (N, A (5 + classes), H, W)  ->  top (1, 1, boxes, 7): image, class from 1, score, x1,
//   y1, x2, y2 as parts of the image; without any one row per image, all -1 but for the image
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "carafe/layers/boxes.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

float Logistic(float x) { return 1 / (1 + std::exp(-x)); }

struct Anchor {
  float width, height;  // as parts of the image
};

struct YoloSettings {
  int64_t classes = 0;
  float least_score = 0, most_overlap = 0;
  bool softmax = false;
};

template <typename T>
class YoloOutput : public Layer<T> {
 public:
  YoloOutput(const LayerSpec& spec, const YoloSettings& settings)
      : Layer<T>(spec), settings_(settings) {
    spec.Check(settings.classes > 0, "", "num_classes is 0", "give the number of classes");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    for (size_t t = 0; t < bottom.size(); ++t) {
      const int64_t numbers = AnchorCount(static_cast<int>(t)) * (5 + settings_.classes);
      this->spec().Check(
          bottom[t].rank() == 4 && bottom[t][1] == numbers && bottom[t][0] == bottom[0][0],
          fmt::format("bottom[{}]", t),
          fmt::format("{} anchors of {} classes need {} channels, this bottom is {}",
                      AnchorCount(static_cast<int>(t)), settings_.classes, numbers,
                      bottom[t].ToString()),
          "give the convolution before it as many outputs, and all bottoms the same batch");
    }
    return {Shape{1, 1, 1, 7}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    std::vector<std::vector<T>> values;
    for (const Blob<T>* blob : bottom) values.push_back(blob->DataToHost(run.stream));
    const int64_t images = bottom[0]->shape()[0];
    std::vector<T> rows;
    for (int64_t n = 0; n < images; ++n) {
      Candidates found(static_cast<size_t>(settings_.classes));
      for (int t = 0; t < static_cast<int>(bottom.size()); ++t) {
        const Shape& shape = bottom[static_cast<size_t>(t)]->shape();
        Decode(At(values, t).data() + n * shape.Count(1), shape, t, &found);
      }
      AddRows(n, found, &rows);
    }
    if (rows.empty()) {
      rows.assign(static_cast<size_t>(images) * 7, T(-1));
      for (int64_t n = 0; n < images; ++n) rows[static_cast<size_t>(n) * 7] = static_cast<T>(n);
    }
    top[0]->Reshape({1, 1, static_cast<int64_t>(rows.size()) / 7, 7});
    top[0]->SetData(run.stream, rows);
  }
  void Backward(RunContext&, Blobs<T>, const std::vector<bool>& propagate_down, Blobs<T>) override {
    for (const bool asked : propagate_down) {
      this->spec().Check(!asked, "propagate_down", "the boxes found have no gradient",
                         "include the layer in TEST only");
    }
  }
  bool AllowForceBackward(int) const override { return false; }

 protected:
  virtual int64_t AnchorCount(int bottom) const = 0;
  virtual Anchor AnchorOf(int bottom, int64_t index, const Shape& features) const = 0;

 private:
  struct OfClass {
    std::vector<Corners> boxes;
    std::vector<float> scores;
  };
  using Candidates = std::vector<OfClass>;

  void Decode(const T* x, const Shape& shape, int bottom, Candidates* found) const {
    const int64_t height = shape[2], width = shape[3], plane = height * width;
    for (int64_t a = 0; a < AnchorCount(bottom); ++a) {
      const Anchor anchor = AnchorOf(bottom, a, shape);
      const T* first = x + a * (5 + settings_.classes) * plane;
      for (int64_t at = 0; at < plane; ++at) {
        const auto number = [&](int64_t i) { return static_cast<float>(first[i * plane + at]); };
        const auto [label, probability] = BestClass(number);
        const float score = Logistic(number(4)) * probability;
        if (score < settings_.least_score) continue;
        const float centre_x =
            (static_cast<float>(at % width) + Logistic(number(0))) / static_cast<float>(width);
        const float centre_y =
            (static_cast<float>(at / width) + Logistic(number(1))) / static_cast<float>(height);
        const float w = anchor.width * std::exp(number(2)), h = anchor.height * std::exp(number(3));
        OfClass& same = At(*found, label);
        same.boxes.push_back(
            {centre_x - w / 2, centre_y - h / 2, centre_x + w / 2, centre_y + h / 2});
        same.scores.push_back(score);
      }
    }
  }
  template <typename Number>
  std::pair<int, float> BestClass(const Number& number) const {
    int best = 0;
    for (int c = 1; c < settings_.classes; ++c) {
      if (number(5 + c) > number(5 + best)) best = c;
    }
    if (!settings_.softmax) return {best, Logistic(number(5 + best))};
    float sum = 0;
    for (int c = 0; c < settings_.classes; ++c) sum += std::exp(number(5 + c) - number(5 + best));
    return {best, 1 / sum};
  }
  void AddRows(int64_t image, const Candidates& found, std::vector<T>* rows) const {
    for (int label = 0; label < Count(found); ++label) {
      const OfClass& same = At(found, label);
      for (const int i : Suppress(same.boxes, same.scores,
                                  {.score_above = -1, .most_overlap = settings_.most_overlap})) {
        const Corners& box = At(same.boxes, i);
        for (const float value : {static_cast<float>(image), static_cast<float>(label + 1),
                                  At(same.scores, i), box.x1, box.y1, box.x2, box.y2}) {
          rows->push_back(static_cast<T>(value));
        }
      }
    }
  }
  const YoloSettings settings_;
};

template <typename T>
class YoloDetectionOutput final : public YoloOutput<T> {
 public:
  explicit YoloDetectionOutput(const LayerSpec& spec)
      : YoloDetectionOutput(
            spec, ForkPart<ForkLayerParameter>(spec.param()).yolo_detection_output_param()) {}

 private:
  YoloDetectionOutput(const LayerSpec& spec, const YoloDetectionOutputParameter& param)
      : YoloOutput<T>(spec, {param.num_classes(), param.confidence_threshold(),
                             param.nms_threshold(), /*softmax=*/true}),
        biases_(param.biases().begin(), param.biases().end()) {
    spec.Check(!biases_.empty() && biases_.size() % 2 == 0, "yolo_detection_output_param",
               fmt::format("there are {} biases", biases_.size()),
               "give width and height of each anchor, in features");
  }
  int64_t AnchorCount(int) const override { return Count(biases_) / 2; }
  Anchor AnchorOf(int, int64_t index, const Shape& features) const override {
    const auto i = static_cast<size_t>(index) * 2;
    return {biases_[i] / static_cast<float>(features[3]),
            biases_[i + 1] / static_cast<float>(features[2])};
  }
  const std::vector<float> biases_;
};

template <typename T>
class Yolov3DetectionOutput final : public YoloOutput<T> {
 public:
  explicit Yolov3DetectionOutput(const LayerSpec& spec)
      : Yolov3DetectionOutput(
            spec, ForkPart<ForkLayerParameter>(spec.param()).yolov3_detection_output_param()) {}

 private:
  Yolov3DetectionOutput(const LayerSpec& spec, const Yolov3DetectionOutputParameter& param)
      : YoloOutput<T>(spec, {param.num_classes(), param.confidence_threshold(),
                             param.nms_threshold(), /*softmax=*/false}),
        param_(param) {
    const int groups = static_cast<int>(param.mask_group_num()),
              bottoms = spec.param().bottom_size();
    const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
      spec.Check(condition, "yolov3_detection_output_param", what, fix);
    };
    check(groups == bottoms && param.anchors_scale_size() == bottoms,
          fmt::format("there are {} bottoms, mask_group_num is {}, and anchors_scale is given {} "
                      "times",
                      bottoms, groups, param.anchors_scale_size()),
          "give each bottom a group of masks and an anchors_scale");
    check(param.mask_size() > 0 && param.mask_size() % groups == 0,
          fmt::format("{} masks are not {} groups", param.mask_size(), groups),
          "give as many masks to each bottom");
    for (const uint32_t mask : param.mask()) {
      check(static_cast<int>(2 * mask + 1) < param.biases_size(),
            fmt::format("mask {} names an anchor, but there are {} biases", mask,
                        param.biases_size()),
            "give width and height of each anchor, in pixels");
    }
  }
  int64_t AnchorCount(int) const override {
    return param_.mask_size() / static_cast<int64_t>(param_.mask_group_num());
  }
  Anchor AnchorOf(int bottom, int64_t index, const Shape& features) const override {
    const int anchor =
        static_cast<int>(param_.mask(static_cast<int>(bottom * AnchorCount(bottom) + index)));
    const auto scale = static_cast<float>(param_.anchors_scale(bottom));
    return {param_.biases(2 * anchor) / (static_cast<float>(features[3]) * scale),
            param_.biases(2 * anchor + 1) / (static_cast<float>(features[2]) * scale)};
  }
  const Yolov3DetectionOutputParameter param_;
};

const RegisterLayer<YoloDetectionOutput> kSecond{
    {.type = "YoloDetectionOutput",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Decodes the predictions of YOLO v2 into boxes."}};
const RegisterLayer<Yolov3DetectionOutput> kThird{
    {.type = "Yolov3DetectionOutput",
     .bottoms = {1, Arity::kAny},
     .tops = {1, 1},
     .summary = "Decodes the predictions of YOLO v3 at several scales into boxes."}};

}  // namespace
}  // namespace carafe
