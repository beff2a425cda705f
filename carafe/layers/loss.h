// What the losses have in common: the check of their bottoms and labels, and the number that a sum
// over items is divided by.
#pragma once

#include <optional>

#include "carafe/kernels/softmax.h"
#include "carafe/layers/layer.h"

namespace carafe {

// A layer whose first top is one number to be made small. Labels (bottom 1) get no gradient unless
// the layer says otherwise.
template <typename T>
class LossLayer : public Layer<T> {
 public:
  using Layer<T>::Layer;
  bool AllowForceBackward(int bottom) const override { return bottom != 1; }

 protected:
  // Throws ConfigError unless the first two bottoms hold the same number of rows.
  void CheckRows(const Shapes& bottom) const;
  // The same, and ConfigError unless all bottoms have as many elements.
  void CheckSameSize(const Shapes& bottom) const;
  // Throws ConfigError when somebody wants the gradient of the labels.
  void CheckNoLabelGradient(const std::vector<bool>& propagate_down, int label_bottom = 1) const;
  static void SetLoss(Stream& stream, Blobs<T> top, double loss) {
    const T value = static_cast<T>(loss);
    top[0]->SetData(stream, std::span<const T>(&value, 1));
  }
};

// Where the classes lie in `scores`; throws ConfigError unless `labels` has one label per item.
ClassAxis MakeClassAxis(const LayerSpec& spec, const Shape& scores, int axis, const Shape& labels);

// The same for rows of scores, whatever their shape: (N, classes..) and N labels.
ClassAxis MakeRowClasses(const LayerSpec& spec, const Shape& scores, const Shape& labels);

// Throws DataError naming the label and the number of classes.
void CheckLabels(const LayerSpec& spec, const LabelCount& count, int64_t classes);

// FULL: all items; VALID: those that are not ignored; BATCH_SIZE: outer; NONE: 1. Never below 1.
double LossNormalizer(LossParameter::NormalizationMode mode, int64_t items, int64_t valid,
                      int64_t outer);
// The mode of loss_param, whose old `normalize` counts where `normalization` is absent.
LossParameter::NormalizationMode NormalizationOf(const LossParameter& param,
                                                 LossParameter::NormalizationMode fallback);

// loss_param.ignore_label as the kernels take it: null when there is none.
class IgnoreLabel {
 public:
  template <typename Param>  // LossParameter or AccuracyParameter
  explicit IgnoreLabel(const Param& param) {
    if (param.has_ignore_label()) label_ = param.ignore_label();
  }
  const int* get() const { return label_ ? &*label_ : nullptr; }

 private:
  std::optional<int> label_;
};

}  // namespace carafe
