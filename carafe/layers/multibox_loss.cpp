// SSD's loss (Liu et al. 2016). Priors are matched with the boxes of an image: each box with the
// prior that overlaps it most (bipartite), and, PER_PREDICTION, every further prior with the box
// that it overlaps most, by overlap_threshold or more. Then
//   loss = (loc_weight sum over matched priors and 4 offsets of l(offset - encoded box)
//           + sum over matched and negative priors of the loss of their class) / normalizer
// l: SMOOTH_L1 or L2 (d^2 / 2); the class: SOFTMAX, or LOGISTIC for each class. Negatives, of the
// background: with MAX_NEGATIVE those of the largest class loss that overlap no box by neg_overlap,
// neg_pos_ratio for each match of the image; with NONE all unmatched. normalizer: the matches
// (VALID), images (BATCH_SIZE), images times priors (FULL), or 1 (NONE); at least 1.
//   bottoms: offsets (N, P 4), class scores (N, P classes), priors (1, 2, 4 P), and boxes (1, 1, B,
//   8) as AnnotatedData gives them: image, class, instance, x1, y1, x2, y2, difficult
//   top: one number
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "carafe/layers/boxes.h"
#include "carafe/layers/loss.h"
#include "carafe/layers/multibox_match.h"
#include "carafe/proto/fork_messages.h"

namespace carafe {
namespace {

// Loss of one class out of `classes`, and its gradient by the scores, added to `gradient` times
// `factor` where that is not null.
double SoftmaxLoss(const double* x, int64_t classes, int64_t label, double factor,
                   double* gradient) {
  const double most = *std::max_element(x, x + classes);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(x[c] - most);
  if (gradient != nullptr) {
    for (int64_t c = 0; c < classes; ++c) {
      gradient[c] += factor * (std::exp(x[c] - most) / sum - (c == label ? 1 : 0));
    }
  }
  return std::log(sum) - (x[label] - most);
}

double LogisticLoss(const double* x, int64_t classes, int64_t label, double factor,
                    double* gradient) {
  double loss = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const double target = c == label ? 1 : 0;
    loss += std::max(x[c], 0.0) - x[c] * target + std::log1p(std::exp(-std::abs(x[c])));
    if (gradient != nullptr) gradient[c] += factor * (1 / (1 + std::exp(-x[c])) - target);
  }
  return loss;
}

template <typename T>
class MultiBoxLoss final : public LossLayer<T> {
 public:
  explicit MultiBoxLoss(const LayerSpec& spec)
      : LossLayer<T>(spec),
        param_(ForkPart<ForkLayerParameter>(spec.param()).multibox_loss_param()),
        classes_(param_.num_classes()) {
    const auto check = [&](bool condition, const std::string& what, const std::string& fix) {
      spec.Check(condition, "multibox_loss_param", what, fix);
    };
    check(classes_ > 0, "num_classes is 0 or missing", "give the classes with the background");
    check(param_.background_label_id() < classes_,
          fmt::format("background_label_id is {} of {} classes", param_.background_label_id(),
                      classes_),
          "use a number below num_classes");
    check(param_.share_location(), "share_location: false is not trained",
          "use share_location: true, the same box for all classes");
    check(param_.use_prior_for_matching(), "use_prior_for_matching: false is not trained",
          "use use_prior_for_matching: true");
    check(!param_.bp_inside(), "bp_inside: true is not trained", "remove it");
    check(Mining() != MultiBoxLossParameter::HARD_EXAMPLE, "mining_type HARD_EXAMPLE is not built",
          "use mining_type: MAX_NEGATIVE, which SSD is published with");
    check(param_.neg_pos_ratio() >= 0 && param_.loc_weight() >= 0,
          "neg_pos_ratio or loc_weight is negative", "use 0 or more");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->spec().Check(bottom[2].Count() % 8 == 0, "bottom[2]",
                       fmt::format("priors have 4 corners and 4 variances each, these are {}",
                                   bottom[2].ToString()),
                       "give the top of PriorBox layers, joined along axis 2");
    const int64_t images = bottom[0].LegacyDim(0), priors = bottom[2].Count() / 8;
    const auto check = [&](int index, int64_t expected, const char* what) {
      const Shape& shape = bottom[static_cast<size_t>(index)];
      this->spec().Check(shape.Count() == images * expected, fmt::format("bottom[{}]", index),
                         fmt::format("{} are {}, but {} priors and {} images need {} x {}", what,
                                     shape.ToString(), priors, images, images, expected),
                         "give offsets, scores and priors of the same features");
    };
    check(0, priors * 4, "the offsets");
    check(1, priors * classes_, "the scores");
    this->spec().Check(bottom[3].rank() == 4 && bottom[3][3] == 8, "bottom[3]",
                       fmt::format("boxes have 8 numbers each, (1, 1, boxes, 8), these are {}",
                                   bottom[3].ToString()),
                       "give the second top of AnnotatedData, without yolo_data_type");
    return {Shape{}};
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Compute(run.stream, bottom, nullptr, nullptr);
    this->SetLoss(run.stream, top, loss_);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    Stream& stream = run.stream;
    this->spec().Check(!propagate_down[3], "propagate_down", "boxes have no gradient",
                       "write propagate_down: false for bottom 3, or nothing");
    if (propagate_down[2]) bottom[2]->ZeroDiff(stream);  // PriorBox computes them from sizes alone
    std::vector<double> offsets(static_cast<size_t>(bottom[0]->count()));
    std::vector<double> scores(static_cast<size_t>(bottom[1]->count()));
    Compute(stream, bottom, offsets.data(), scores.data());
    const auto weight = static_cast<double>(top[0]->DiffToHost(stream)[0]);
    const auto write = [&](const std::vector<double>& values, Blob<T>* blob) {
      std::vector<T> diff;
      for (const double value : values) diff.push_back(static_cast<T>(weight * value));
      blob->SetDiff(stream, diff);
    };
    if (propagate_down[0]) write(offsets, bottom[0]);
    if (propagate_down[1]) write(scores, bottom[1]);
  }
  bool AllowForceBackward(int bottom) const override { return bottom < 2; }

 private:
  MultiBoxLossParameter::MiningType Mining() const {
    if (!param_.has_do_neg_mining() || param_.has_mining_type()) return param_.mining_type();
    return param_.do_neg_mining() ? MultiBoxLossParameter::MAX_NEGATIVE
                                  : MultiBoxLossParameter::NONE;
  }
  double ClassLoss(const double* x, int64_t label, double factor, double* gradient) const {
    const auto loss =
        param_.conf_loss_type() == MultiBoxLossParameter::SOFTMAX ? &SoftmaxLoss : &LogisticLoss;
    return loss(x, classes_, label, factor, gradient);
  }
  int64_t LabelOf(const std::vector<GivenBox>& boxes, int match) const {
    if (match < 0) return param_.background_label_id();
    return param_.map_object_to_agnostic() ? param_.background_label_id() + 1
                                           : At(boxes, match).label;
  }
  // The loss of the bottoms' values, and its gradients where they are not null.
  void Compute(Stream& stream, Blobs<T> bottom, double* offset_gradient, double* score_gradient) {
    const int64_t images = bottom[0]->shape().LegacyDim(0), priors = bottom[2]->count() / 8;
    const std::vector<T> priors_given = bottom[2]->DataToHost(stream);
    const std::vector<float> prior(priors_given.begin(), priors_given.end());
    const std::vector<std::vector<GivenBox>> boxes =
        BoxesOf(this->spec(), *bottom[3], stream, images, param_);
    std::vector<BoxMatches> matches;
    int64_t matched = 0;
    for (const std::vector<GivenBox>& of_image : boxes) {
      matches.push_back(MatchBoxes(prior, of_image, param_));
      matched += matches.back().matched;
    }
    const double normalizer =
        LossNormalizer(NormalizationOf(this->spec().param().loss_param(), LossParameter::VALID),
                       images * priors, matched, images);
    const std::vector<T> offsets = bottom[0]->DataToHost(stream),
                         scores = bottom[1]->DataToHost(stream);
    const std::vector<double> x(scores.begin(), scores.end());
    double location = 0, confidence = 0;
    for (int64_t n = 0; n < images; ++n) {
      const BoxMatches& of_image = At(matches, n);
      const double* const image_scores = x.data() + n * priors * classes_;
      const std::vector<bool> negative = Negatives(of_image, image_scores);
      for (int64_t p = 0; p < priors; ++p) {
        const int match = At(of_image.box, p);
        const int64_t at = n * priors + p;
        if (match >= 0) {
          location += LocationLoss(At(boxes, n)[static_cast<size_t>(match)].corners, prior, p,
                                   offsets.data() + at * 4, param_.loc_weight() / normalizer,
                                   offset_gradient == nullptr ? nullptr : offset_gradient + at * 4);
        }
        if (match < 0 && !negative[static_cast<size_t>(p)]) continue;
        confidence +=
            ClassLoss(image_scores + p * classes_, LabelOf(At(boxes, n), match), 1 / normalizer,
                      score_gradient == nullptr ? nullptr : score_gradient + at * classes_);
      }
    }
    loss_ = (param_.loc_weight() * location + confidence) / normalizer;
  }
  double LocationLoss(const Corners& box, const std::vector<float>& priors, int64_t p,
                      const T* offsets, double factor, double* gradient) const {
    constexpr float kOnes[] = {1, 1, 1, 1};
    const float* variances = param_.encode_variance_in_target()
                                 ? kOnes
                                 : priors.data() + static_cast<int64_t>(priors.size()) / 2 + p * 4;
    const std::array<double, 4> target =
        Encode(param_.code_type(), priors.data() + p * 4, variances, box);
    const bool smooth = param_.loc_loss_type() == MultiBoxLossParameter::SMOOTH_L1;
    double loss = 0;
    for (int i = 0; i < 4; ++i) {
      const double d = static_cast<double>(offsets[i]) - At(target, i);
      const bool linear = smooth && std::abs(d) >= 1;
      loss += linear ? std::abs(d) - 0.5 : d * d / 2;
      if (gradient != nullptr) gradient[i] += factor * (linear ? std::copysign(1.0, d) : d);
    }
    return loss;
  }
  // Of the unmatched priors of one image, those that are trained as background.
  std::vector<bool> Negatives(const BoxMatches& matches, const double* scores) const {
    const int priors = Count(matches.box);
    std::vector<bool> negative(static_cast<size_t>(priors), false);
    if (Mining() == MultiBoxLossParameter::NONE) {
      for (int p = 0; p < priors; ++p) negative[static_cast<size_t>(p)] = At(matches.box, p) == -1;
      return negative;
    }
    std::vector<std::pair<double, int>> candidates;
    for (int p = 0; p < priors; ++p) {
      if (At(matches.box, p) != -1 || At(matches.overlap, p) >= param_.neg_overlap()) continue;
      candidates.emplace_back(
          ClassLoss(scores + p * classes_, param_.background_label_id(), 0, nullptr), p);
    }
    std::ranges::stable_sort(candidates, std::greater<>{}, &std::pair<double, int>::first);
    const auto most =
        static_cast<size_t>(static_cast<float>(matches.matched) * param_.neg_pos_ratio());
    if (candidates.size() > most) candidates.resize(most);
    for (const auto& [loss, p] : candidates) negative[static_cast<size_t>(p)] = true;
    return negative;
  }

  const MultiBoxLossParameter param_;
  const int64_t classes_;
  double loss_ = 0;  // of the last Compute
};

const RegisterLayer<MultiBoxLoss> kRegistered{
    {.type = "MultiBoxLoss",
     .bottoms = {4, 4},
     .tops = {1, 1},
     .summary = "SSD's loss of offsets and classes of priors matched with boxes.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
