#include "carafe/layers/loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/error.h"

namespace carafe {

template <typename T>
void LossLayer<T>::CheckRows(const Shapes& bottom) const {
  this->spec().Check(bottom[0].LegacyDim(0) == bottom[1].LegacyDim(0), "bottom",
                     fmt::format("the bottoms have different numbers of rows: {} and {}",
                                 bottom[0].ToString(), bottom[1].ToString()),
                     "give both the same batch size");
}

template <typename T>
void LossLayer<T>::CheckSameSize(const Shapes& bottom) const {
  CheckRows(bottom);
  for (const Shape& shape : bottom) {
    this->spec().Check(shape.Count() == bottom[0].Count(), "bottom",
                       fmt::format("the bottoms have different numbers of elements: {} and {}",
                                   bottom[0].ToString(), shape.ToString()),
                       "give bottoms of the same size");
  }
}

template <typename T>
void LossLayer<T>::CheckNoLabelGradient(const std::vector<bool>& propagate_down,
                                        int label_bottom) const {
  if (!propagate_down[static_cast<size_t>(label_bottom)]) return;
  this->spec().Fail("propagate_down", fmt::format("bottom {} has no gradient", label_bottom),
                    "take the labels from a layer without parameters, or set propagate_down: "
                    "false for them");
}

template class LossLayer<float>;
template class LossLayer<double>;

ClassAxis MakeClassAxis(const LayerSpec& spec, const Shape& scores, int axis, const Shape& labels) {
  const int a = scores.CanonicalAxis(axis);
  const ClassAxis result{scores.Count(0, a), scores[a], scores.Count(a + 1)};
  if (labels.Count() == result.items()) return result;
  spec.Fail("bottom[1]",
            fmt::format("there are {} labels for {} predictions (scores {}, labels {})",
                        labels.Count(), result.items(), scores.ToString(), labels.ToString()),
            fmt::format("give one label per prediction; the classes are along axis {}", a));
}

ClassAxis MakeRowClasses(const LayerSpec& spec, const Shape& scores, const Shape& labels) {
  const int64_t rows = scores.LegacyDim(0);
  if (labels.Count() == rows) return {rows, rows > 0 ? scores.Count() / rows : 0, 1};
  spec.Fail("bottom[1]",
            fmt::format("there are {} labels for {} rows (scores {}, labels {})", labels.Count(),
                        rows, scores.ToString(), labels.ToString()),
            "give one label per row");
}

void CheckLabels(const LayerSpec& spec, const LabelCount& count, int64_t classes) {
  if (count.bad < 0) return;
  throw DataError(
      fmt::format("layer \"{}\" ({})", spec.name(), spec.param().type()), count.bad,
      fmt::format("label {} is not one of the {} classes 0 to {}", count.bad_label, classes,
                  classes - 1),
      "check the labels of the data, or the num_output of the layer that makes the scores");
}

double LossNormalizer(LossParameter::NormalizationMode mode, int64_t items, int64_t valid,
                      int64_t outer) {
  int64_t n = 1;
  if (mode == LossParameter::FULL) n = items;
  if (mode == LossParameter::VALID) n = valid;
  if (mode == LossParameter::BATCH_SIZE) n = outer;
  return static_cast<double>(std::max<int64_t>(n, 1));
}

LossParameter::NormalizationMode NormalizationOf(const LossParameter& param,
                                                 LossParameter::NormalizationMode fallback) {
  if (param.has_normalization()) return param.normalization();
  if (param.has_normalize()) {
    return param.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
  }
  return fallback;
}

}  // namespace carafe
