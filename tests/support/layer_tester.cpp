#include "tests/support/layer_tester.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "carafe/base/error.h"
#include "carafe/layers/filler.h"

namespace carafe {
namespace {

LayerSpec SpecOf(const std::string& text, size_t bottoms, const TesterOptions& options) {
  LayerParameter param;
  const Place place = ParseText(text, "test.prototxt", &param);
  if (!param.has_name()) param.set_name("test");
  for (size_t i = static_cast<size_t>(param.bottom_size()); i < bottoms; ++i) {
    param.add_bottom(fmt::format("bottom{}", i));
  }
  const LayerInfo& info = FindLayer(LayerSpec(param, options.phase, place)).info;
  int tops = options.tops;
  if (tops == 0) {
    tops = info.as_many_tops ? static_cast<int>(bottoms)
                             : std::max(info.tops.min, info.is_loss ? 1 : 0);
  }
  for (int i = param.top_size(); i < tops; ++i) {
    param.add_top(options.in_place && i == 0 ? param.bottom(0) : fmt::format("top{}", i));
  }
  return LayerSpec(param, options.phase, place);
}

template <typename T>
std::vector<T> Gaussians(int64_t count, uint64_t key) {
  RandomSequence random(key);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = static_cast<T>(random.NextGaussian());
  return values;
}

}  // namespace

template <typename T>
LayerTester<T>::LayerTester(const std::string& text, const Shapes& bottoms,
                            const TesterOptions& options)
    : options_(options),
      stream_(CpuDevice(), options.threads),
      run_{.stream = stream_,
           .pass = {.seed = options.seed, .index = options.pass},
           .replica = options.replica} {
  const LayerSpec spec = SpecOf(text, bottoms.size(), options);
  info_ = FindLayer(spec).info;
  layer_ = MakeLayer<T>(spec);
  const Shapes tops = layer_->InferShapes(bottoms);
  Ensure(static_cast<int>(tops.size()) == spec.param().top_size(),
         "the layer inferred another number of tops than it has");
  for (const Shape& shape : bottoms) {
    owned_.push_back(std::make_unique<Blob<T>>(shape));
    bottoms_.push_back(owned_.back().get());
    values_.emplace_back();
    FillBottom(values_.size() - 1);
  }
  for (size_t i = 0; i < tops.size(); ++i) {
    if (options.in_place && i == 0) {
      tops_.push_back(bottoms_[0]);
    } else {
      owned_.push_back(std::make_unique<Blob<T>>(tops[i]));
      tops_.push_back(owned_.back().get());
    }
  }
  top_diff_.resize(tops.size());
  uint64_t key = MixSeed(options.seed, 1);
  for (const ParamDef& def : layer_->DeclareParams(bottoms)) {
    const std::vector<double> values = FillerValues(def.filler, def.shape, ++key, spec.name());
    layer_->blobs().push_back(std::make_shared<Blob<T>>(def.shape));
    layer_->blobs().back()->SetData(stream_, std::vector<T>(values.begin(), values.end()));
  }
}

template <typename T>
void LayerTester<T>::FillBottom(size_t index) {
  values_[index] = Gaussians<T>(bottoms_[index]->count(), MixSeed(options_.seed, 1000 + index));
}

template <typename T>
LayerTester<T>& LayerTester<T>::SetBottom(const std::vector<T>& values, int index) {
  Ensure(static_cast<int64_t>(values.size()) == bottom(index).count(),
         "the bottom has another number of elements");
  values_[static_cast<size_t>(index)] = values;
  return *this;
}

template <typename T>
LayerTester<T>& LayerTester<T>::SetBottomShape(const Shape& shape, int index) {
  bottom(index).Reshape(shape);
  FillBottom(static_cast<size_t>(index));
  return *this;
}

template <typename T>
LayerTester<T>& LayerTester<T>::SetParam(int index, const std::vector<T>& values) {
  param(index).SetData(stream_, values);
  return *this;
}

template <typename T>
LayerTester<T>& LayerTester<T>::SetTopDiff(const std::vector<T>& values, int index) {
  top_diff_[static_cast<size_t>(index)] = values;
  return *this;
}

template <typename T>
LayerTester<T>& LayerTester<T>::SetPass(int64_t pass) {
  run_.pass.index = pass;
  return *this;
}

template <typename T>
LayerTester<T>& LayerTester<T>::Forward() {
  for (size_t i = 0; i < bottoms_.size(); ++i) {
    bottoms_[i]->SetData(stream_, values_[i]);
    if (bottoms_[i]->Takes(stream_, options_.format)) bottoms_[i]->data(stream_, options_.format);
  }
  layer_->Reshape(run_, bottoms_, tops_);
  layer_->Forward(run_, bottoms_, tops_);
  return *this;
}

template <typename T>
LayerTester<T>& LayerTester<T>::Backward() {
  for (auto& blob : layer_->blobs()) blob->ZeroDiff(stream_);
  return BackwardAgain();
}

template <typename T>
LayerTester<T>& LayerTester<T>::BackwardAgain() {
  std::vector<bool> propagate_down;
  for (int i = 0; i < num_bottoms(); ++i) propagate_down.push_back(layer_->AllowForceBackward(i));
  return Backward(propagate_down);
}

template <typename T>
LayerTester<T>& LayerTester<T>::Backward(const std::vector<bool>& propagate_down) {
  for (size_t i = 0; i < tops_.size(); ++i) {
    if (!top_diff_[i].empty()) {
      tops_[i]->SetDiff(stream_, top_diff_[i]);
      if (tops_[i]->Takes(stream_, options_.format)) tops_[i]->diff(stream_, options_.format);
    } else if (info_.is_loss && i == 0) {
      const LayerParameter& param = layer_->spec().param();
      const float weight = param.loss_weight_size() > 0 ? param.loss_weight(0) : 1;
      tops_[i]->SetDiff(stream_, std::vector<T>{static_cast<T>(weight)});
    }
  }
  layer_->Backward(run_, tops_, propagate_down, bottoms_);
  return *this;
}

template class LayerTester<float>;
template class LayerTester<double>;

namespace {

bool Holds(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The layer as a function of one number: its bottoms and parameters give a weighted sum of tops.
class Objective {
 public:
  Objective(LayerTester<double>& tester, const GradientOptions& options) : tester_(tester) {
    for (int i = 0; i < tester.num_tops(); ++i) {
      const bool counts = options.tops.empty() || Holds(options.tops, i);
      std::vector<double> w =
          Gaussians<double>(tester.top(i).count(), 77 + static_cast<uint64_t>(i));
      if (tester.info().is_loss) {
        const LayerParameter& param = tester.layer().spec().param();
        const double weight = param.loss_weight_size() > i ? param.loss_weight(i) : i == 0;
        std::fill(w.begin(), w.end(), weight);
      } else if (!counts) {
        std::fill(w.begin(), w.end(), 0.0);
      }
      tester.SetTopDiff(w, i);
      weights_.push_back(std::move(w));
    }
  }
  double Value() {
    tester_.Forward();
    double sum = 0;
    for (int i = 0; i < tester_.num_tops(); ++i) {
      const std::vector<double> y = tester_.top_values(i);
      const std::vector<double>& w = weights_[static_cast<size_t>(i)];
      for (size_t j = 0; j < y.size(); ++j) {
        if (w[j] != 0) sum += w[j] * y[j];
      }
    }
    return sum;
  }

 private:
  LayerTester<double>& tester_;
  std::vector<std::vector<double>> weights_;
};

void MoveFromKinks(LayerTester<double>& tester, int bottom, const GradientOptions& options) {
  std::vector<double> values = tester.bottom_values(bottom);
  for (double& value : values) {
    for (const double kink : options.kinks) {
      const double margin = 20 * options.step;
      if (std::fabs(value - kink) < margin) value = value < kink ? kink - margin : kink + margin;
    }
  }
  tester.SetBottom(values, bottom);
}

// `set(values)` writes the array under test; returns the worst error against `analytic`.
template <typename Set>
double ArrayError(Objective& objective, double step, std::vector<double> values,
                  const std::vector<double>& analytic, const Set& set) {
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double before = values[i];
    values[i] = before + step;
    set(values);
    const double above = objective.Value();
    values[i] = before - step;
    set(values);
    const double below = objective.Value();
    values[i] = before;
    const double numeric = (above - below) / (2 * step);
    const double scale = std::max({1.0, std::fabs(numeric), std::fabs(analytic[i])});
    const double error = std::fabs(numeric - analytic[i]) / scale;
    worst = std::max(worst, std::isfinite(error) ? error : HUGE_VAL);
  }
  set(values);
  return worst;
}

}  // namespace

double GradientError(LayerTester<double>& tester, const GradientOptions& options) {
  std::vector<int> bottoms = options.bottoms;
  if (bottoms.empty()) {
    for (int i = 0; i < tester.num_bottoms(); ++i) {
      if (tester.layer().AllowForceBackward(i)) bottoms.push_back(i);
    }
  }
  for (const int i : bottoms) MoveFromKinks(tester, i, options);
  for (int i = 0; options.random_params && i < tester.num_params(); ++i) {
    if (Holds(options.skip_params, i)) continue;
    tester.SetParam(i, Gaussians<double>(tester.param(i).count(), 55 + static_cast<uint64_t>(i)));
  }
  tester.Forward();  // settles the shapes of the tops
  Objective objective(tester, options);
  objective.Value();
  std::vector<bool> propagate_down;
  for (int i = 0; i < tester.num_bottoms(); ++i) propagate_down.push_back(Holds(bottoms, i));
  for (int i = 0; i < tester.num_params(); ++i) tester.param(i).ZeroDiff(tester.run().stream);
  tester.Backward(propagate_down);

  double worst = 0;
  std::vector<std::vector<double>> bottom_diffs, param_diffs;
  for (int i = 0; i < tester.num_bottoms(); ++i) bottom_diffs.push_back(tester.bottom_diff(i));
  for (int i = 0; i < tester.num_params(); ++i) param_diffs.push_back(tester.param_diff(i));
  for (const int i : bottoms) {
    worst = std::max(worst, ArrayError(objective, options.step, tester.bottom_values(i),
                                       bottom_diffs[static_cast<size_t>(i)],
                                       [&](const auto& v) { tester.SetBottom(v, i); }));
  }
  for (int i = 0; i < tester.num_params(); ++i) {
    if (Holds(options.skip_params, i)) continue;
    worst = std::max(worst, ArrayError(objective, options.step, tester.param_values(i),
                                       param_diffs[static_cast<size_t>(i)],
                                       [&](const auto& v) { tester.SetParam(i, v); }));
  }
  return worst;
}

}  // namespace carafe
