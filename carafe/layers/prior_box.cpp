// The boxes that SSD's predictions are relative to: around the centre of every feature, for each
// min_size m (with its max_size M) a square of m, one of sqrt(m M), and for each aspect ratio a !=
// 1 one of m sqrt(a) x m / sqrt(a).
//   bottoms: features (N, C, H, W), image (N, C, img_h, img_w)
//   top: (1, 2, 4 H W priors): the corners as parts of the image, then their variances
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "carafe/layers/boxes.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

// 1 first; ratios that are there already are left out.
std::vector<float> AspectRatios(const PriorBoxParameter& param) {
  std::vector<float> ratios = {1};
  for (const float ratio : param.aspect_ratio()) {
    const bool known =
        std::ranges::any_of(ratios, [&](float r) { return std::abs(r - ratio) < 1e-6F; });
    if (known) continue;
    ratios.push_back(ratio);
    if (param.flip()) ratios.push_back(1 / ratio);
  }
  return ratios;
}

template <typename T>
class PriorBox final : public Layer<T> {
 public:
  explicit PriorBox(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(ForkPart<ForkLayerParameter>(spec.param()).prior_box_param()),
        ratios_(AspectRatios(param_)) {
    const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
      spec.Check(condition, "prior_box_param", what, fix);
    };
    const auto positive = [](const auto& numbers) {
      return std::ranges::all_of(numbers, [](float x) { return x > 0; });
    };
    check(param_.min_size_size() > 0 && positive(param_.min_size()),
          "min_size is missing, or not above 0", "give the size of the boxes, e.g. min_size: 30");
    check(param_.max_size_size() == 0 || param_.max_size_size() == param_.min_size_size(),
          fmt::format("there are {} max_sizes for {} min_sizes", param_.max_size_size(),
                      param_.min_size_size()),
          "give one max_size for each min_size, or none");
    for (int i = 0; i < param_.max_size_size(); ++i) {
      check(param_.max_size(i) > param_.min_size(i),
            fmt::format("max_size {} is not above min_size {}", param_.max_size(i),
                        param_.min_size(i)),
            "give a larger max_size");
    }
    check(positive(param_.aspect_ratio()), "an aspect_ratio is not above 0", "give width / height");
    const int variances = param_.variance_size();
    check((variances == 0 || variances == 1 || variances == 4) && positive(param_.variance()),
          fmt::format("there are {} variances, or one is not above 0", variances),
          "give one variance, or four: of x, y, width and height");
    check(!param_.has_step() || (!param_.has_step_h() && !param_.has_step_w()),
          "both step and step_h or step_w are given", "remove one of the two");
    check(param_.step() >= 0 && param_.step_h() >= 0 && param_.step_w() >= 0, "step is negative",
          "give the pixels from feature to feature, or none");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    for (const Shape& shape : bottom) {
      this->spec().Check(
          shape.rank() == 4, "bottom",
          fmt::format("PriorBox needs bottoms of 4 axes (N, C, H, W), this one is {}",
                      shape.ToString()),
          "give the features and the image");
    }
    return {Shape{1, 2, bottom[0][2] * bottom[0][3] * Priors() * 4}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    const Shape &x = bottom[0]->shape(), &image = bottom[1]->shape();
    const Image size{Given(param_.img_h(), param_.img_size(), image[2]),
                     Given(param_.img_w(), param_.img_size(), image[3])};
    const float step_h = Step(param_.step_h(), size.height, x[2]);
    const float step_w = Step(param_.step_w(), size.width, x[3]);
    std::vector<T> values;
    values.reserve(static_cast<size_t>(top[0]->count()));
    for (int64_t row = 0; row < x[2]; ++row) {
      for (int64_t column = 0; column < x[3]; ++column) {
        AddBoxes((static_cast<float>(column) + param_.offset()) * step_w,
                 (static_cast<float>(row) + param_.offset()) * step_h, size, &values);
      }
    }
    if (param_.clip()) {
      for (T& value : values) value = std::clamp<T>(value, 0, 1);
    }
    for (size_t i = 0, count = values.size(); i < count; ++i) {
      const int which = static_cast<int>(i % 4);
      values.push_back(param_.variance_size() == 0 ? static_cast<T>(0.1F)
                                                   : static_cast<T>(param_.variance(
                                                         param_.variance_size() == 1 ? 0 : which)));
    }
    top[0]->SetData(run.stream, values);
  }
  // Boxes depend on no value of a bottom.
  void Backward(RunContext& run, Blobs<T>, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate_down[i]) bottom[i]->ZeroDiff(run.stream);
    }
  }
  BackwardReads ReadsInBackward() const override { return {.bottom = false, .top = false}; }

 private:
  struct Image {
    float height, width;
  };
  int64_t Priors() const {
    return Count(ratios_) * param_.min_size_size() + param_.max_size_size();
  }
  static float Given(uint32_t side, uint32_t both, int64_t of_image) {
    return static_cast<float>(side > 0 ? side : both > 0 ? both : of_image);
  }
  float Step(float side, float image, int64_t features) const {
    if (side > 0) return side;
    return param_.step() > 0 ? param_.step() : image / static_cast<float>(features);
  }
  void AddBoxes(float x, float y, const Image& image, std::vector<T>* values) const {
    const auto add = [&](float width, float height) {
      for (const float value : {(x - width / 2) / image.width, (y - height / 2) / image.height,
                                (x + width / 2) / image.width, (y + height / 2) / image.height}) {
        values->push_back(static_cast<T>(value));
      }
    };
    for (int s = 0; s < param_.min_size_size(); ++s) {
      const float least = param_.min_size(s);
      add(least, least);
      if (param_.max_size_size() > 0) {
        const float side = std::sqrt(least * param_.max_size(s));
        add(side, side);
      }
      for (const float ratio : ratios_) {
        if (std::abs(ratio - 1) < 1e-6F) continue;
        add(least * std::sqrt(ratio), least / std::sqrt(ratio));
      }
    }
  }
  const PriorBoxParameter param_;
  const std::vector<float> ratios_;
};

const RegisterLayer<PriorBox> kRegistered{
    {.type = "PriorBox",
     .bottoms = {2, 2},
     .tops = {1, 1},
     .summary = "The boxes around each feature that predictions are relative to (SSD)."}};

}  // namespace
}  // namespace carafe
