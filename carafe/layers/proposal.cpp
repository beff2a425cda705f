// The regions that a region proposal network suggests (Faster R-CNN): anchors around every feature,
// moved and stretched by the predictions, clipped to the image; those of both sides of at least
// min_size are sorted by score, and of the pre_nms_topn best the post_nms_topn stay that no better
// one overlaps by more than nms_thresh.
//   bottoms: scores (1, 2 A, H, W), background first; offsets (1, 4 A, H, W); the image's height,
//   width and scale (3 numbers)
//   tops: regions (R, 5): 0, x1, y1, x2, y2 in pixels; optionally their scores (R, 1). How many
//   there are is known only in Forward; before, post_nms_topn is assumed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "carafe/layers/boxes.h"
#include "carafe/layers/layer.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

// Squares of base_size become rectangles of the same area and height / width = ratio, whose sides
// are rounded, and those are enlarged; all around the centre of the first feature.
std::vector<Corners> MakeAnchors(const ProposalParameter& param) {
  const auto around = [](float centre, float width, float height) {
    return Corners{centre - (width - 1) / 2, centre - (height - 1) / 2, centre + (width - 1) / 2,
                   centre + (height - 1) / 2};
  };
  const auto base = static_cast<float>(param.base_size());
  std::vector<Corners> anchors;
  for (const float ratio : param.ratio()) {
    const float width = std::nearbyint(std::sqrt(base * base / ratio));
    const float height = std::nearbyint(width * ratio);
    for (const float scale : param.scale()) {
      anchors.push_back(around((base - 1) / 2, width * scale, height * scale));
    }
  }
  return anchors;
}

ProposalParameter WithDefaults(ProposalParameter param) {
  if (param.ratio_size() == 0) {
    for (const float ratio : {0.5F, 1.0F, 2.0F}) param.add_ratio(ratio);
  }
  if (param.scale_size() == 0) {
    for (const float scale : {8.0F, 16.0F, 32.0F}) param.add_scale(scale);
  }
  return param;
}

template <typename T>
class Proposal final : public Layer<T> {
 public:
  explicit Proposal(const LayerSpec& spec)
      : Layer<T>(spec),
        param_(WithDefaults(ForkPart<ForkLayerParameter>(spec.param()).proposal_param())),
        anchors_(MakeAnchors(param_)) {
    const auto positive = [](const auto& numbers) {
      return std::ranges::all_of(numbers, [](float x) { return x > 0; });
    };
    spec.Check(param_.feat_stride() > 0 && param_.base_size() > 0 && param_.post_nms_topn() > 0 &&
                   positive(param_.ratio()) && positive(param_.scale()),
               "proposal_param",
               "feat_stride, base_size, post_nms_topn, a ratio or a scale is not above 0",
               "give numbers above 0, or none for the defaults");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const int64_t anchors = Count(anchors_);
    const bool fits = bottom[0].rank() == 4 && bottom[1].rank() == 4 && bottom[0][0] == 1 &&
                      bottom[0][1] == 2 * anchors && bottom[1][1] == 4 * anchors &&
                      bottom[0].Count(2) == bottom[1].Count(2) && bottom[2].Count() >= 3;
    this->spec().Check(
        fits, "bottom",
        fmt::format("{} anchors need scores (1, {}, H, W), offsets (1, {}, H, W) and 3 numbers of "
                    "the image, not {}, {} and {}",
                    anchors, 2 * anchors, 4 * anchors, bottom[0].ToString(), bottom[1].ToString(),
                    bottom[2].ToString()),
        "give one image, and as many outputs as the ratios and scales ask for");
    Shapes tops = {Shape{param_.post_nms_topn(), 5}, Shape{param_.post_nms_topn(), 1}};
    tops.resize(static_cast<size_t>(this->spec().param().top_size()));
    return tops;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const std::vector<T> image = bottom[2]->DataToHost(stream);
    const int64_t height = bottom[0]->shape()[2], width = bottom[0]->shape()[3];
    std::vector<Corners> boxes;
    std::vector<float> scores;
    Predict(bottom[0]->DataToHost(stream), bottom[1]->DataToHost(stream), height, width, image,
            &boxes, &scores);
    std::vector<int> kept = Suppress(
        boxes, scores,
        {.score_above = -INFINITY,
         .most_overlap = param_.nms_thresh(),
         .candidates = param_.pre_nms_topn() > 0 ? static_cast<int>(param_.pre_nms_topn()) : -1,
         .unit = BoxUnit::kPixel});
    if (kept.size() > param_.post_nms_topn()) kept.resize(param_.post_nms_topn());
    std::vector<T> regions, values;
    for (const int i : kept) {
      const Corners& box = At(boxes, i);
      for (const float number : {0.0F, box.x1, box.y1, box.x2, box.y2}) {
        regions.push_back(static_cast<T>(number));
      }
      values.push_back(static_cast<T>(At(scores, i)));
    }
    top[0]->Reshape({static_cast<int64_t>(values.size()), 5});
    top[0]->SetData(stream, regions);
    if (top.size() == 1) return;
    top[1]->Reshape({static_cast<int64_t>(values.size()), 1});
    top[1]->SetData(stream, values);
  }
  // As published: regions are given to the rest of the net, and nothing flows back through them.
  void Backward(RunContext& run, Blobs<T>, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    for (size_t i = 0; i < bottom.size(); ++i) {
      if (propagate_down[i]) bottom[i]->ZeroDiff(run.stream);
    }
  }
  bool AllowForceBackward(int) const override { return false; }

 private:
  void Predict(const std::vector<T>& scores, const std::vector<T>& offsets, int64_t height,
               int64_t width, const std::vector<T>& image, std::vector<Corners>* boxes,
               std::vector<float>* kept_scores) const {
    const int64_t plane = height * width;
    const auto last_row = static_cast<float>(image[0]) - 1;
    const auto last_column = static_cast<float>(image[1]) - 1;
    const float least = static_cast<float>(param_.min_size()) * static_cast<float>(image[2]);
    for (int64_t at = 0; at < plane; ++at) {
      const auto x = static_cast<float>(at % width * param_.feat_stride());
      const auto y = static_cast<float>(at / width * param_.feat_stride());
      for (int a = 0; a < Count(anchors_); ++a) {
        const Corners& anchor = At(anchors_, a);
        const auto offset = [&](int i) {
          return static_cast<float>(At(offsets, (a * 4 + i) * plane + at));
        };
        const float w = anchor.x2 - anchor.x1 + 1, h = anchor.y2 - anchor.y1 + 1;
        const float centre_x = offset(0) * w + anchor.x1 + x + w / 2;
        const float centre_y = offset(1) * h + anchor.y1 + y + h / 2;
        const float new_w = std::exp(offset(2)) * w, new_h = std::exp(offset(3)) * h;
        const Corners box{std::clamp(centre_x - new_w / 2, 0.0F, last_column),
                          std::clamp(centre_y - new_h / 2, 0.0F, last_row),
                          std::clamp(centre_x + new_w / 2, 0.0F, last_column),
                          std::clamp(centre_y + new_h / 2, 0.0F, last_row)};
        if (box.x2 - box.x1 + 1 < least || box.y2 - box.y1 + 1 < least) continue;
        boxes->push_back(box);
        kept_scores->push_back(static_cast<float>(At(scores, (Count(anchors_) + a) * plane + at)));
      }
    }
  }
  const ProposalParameter param_;
  const std::vector<Corners> anchors_;
};

const RegisterLayer<Proposal> kRegistered{
    {.type = "Proposal",
     .bottoms = {3, 3},
     .tops = {1, 2},
     .summary = "The best regions of a region proposal network (Faster R-CNN)."}};

}  // namespace
}  // namespace carafe
