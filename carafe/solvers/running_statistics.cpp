#include "carafe/solvers/running_statistics.h"

#include <algorithm>

#include "carafe/base/index.h"

namespace carafe {

template <typename T>
RunningStatistics<T>::RunningStatistics(WorkerTeam<T>& team) : team_(team) {
  for (int p = 0; p < Count(team_.net(0).params()); ++p) {
    const Param<T>& param = At(team_.net(0).params(), p);
    if (param.learned) continue;
    params_.push_back(p);
    count_ += param.blob->count();
  }
  if (!exchanged()) return;
  values_.resize(static_cast<size_t>(team_.size()));
  for (std::vector<T>& values : values_) values.resize(static_cast<size_t>(count_));
  mean_.resize(static_cast<size_t>(count_));
  for (int w = 0; w < team_.size(); ++w) streams_.emplace_back(team_.stream(w).device());
}

template <typename T>
ParamInfo<T> RunningStatistics<T>::Info() {
  Collect(0);
  mean_ = values_[0];  // until the first update
  ParamInfo<T> info{.name = "running statistics",
                    .count = count_,
                    .value = mean_.data(),
                    .gradient = values_[0].data(),
                    .arena_offset = team_.net(0).arena_count(),
                    .learned = false};
  for (int w = 1; w < team_.size(); ++w) info.other_gradients.push_back(At(values_, w).data());
  return info;
}

template <typename T>
void RunningStatistics<T>::Collect(int worker) {
  auto next = At(values_, worker).begin();
  for (const int p : params_) {
    const std::vector<T> values =
        At(team_.net(worker).params(), p).blob->DataToHost(team_.stream(worker));
    next = std::copy(values.begin(), values.end(), next);
  }
}

template <typename T>
void RunningStatistics<T>::TakeSum() {
  MeanOf(count_, values_[0].data(), mean_.data());
  HandOut();
}

template <typename T>
void RunningStatistics<T>::MeanOf(int64_t count, T* sum, T* mean) const {
  const T share = T(1) / static_cast<T>(team_.replica(0).count);
  for (int64_t i = 0; i < count; ++i) {
    mean[i] = sum[i] * share;
    sum[i] = 0;
  }
}

template <typename T>
void RunningStatistics<T>::HandOut() {
  for (int w = 0; w < team_.size(); ++w) {
    auto next = mean_.begin();
    for (const int p : params_) {
      Blob<T>& blob = *At(team_.net(w).params(), p).blob;
      const auto end = next + blob.count();
      blob.SetData(At(streams_, w), std::vector<T>(next, end));
      next = end;
    }
    At(streams_, w).Synchronize();
  }
}

template <typename T>
void RunningStatistics<T>::CopyFromFirstWorker() {
  for (int w = 1; w < team_.size(); ++w)
    for (const int p : params_)
      At(team_.net(w).params(), p)
          .blob->SetData(team_.stream(w),
                         At(team_.net(0).params(), p).blob->DataToHost(team_.stream(0)));
}

template class RunningStatistics<float>;
template class RunningStatistics<double>;

}  // namespace carafe
