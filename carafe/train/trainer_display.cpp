// What a run shows on its way: Caffe's lines, the metrics, the progress line.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "carafe/base/log.h"
#include "carafe/train/data_wait.h"
#include "carafe/train/mean_outputs.h"
#include "carafe/train/trainer.h"

namespace carafe {

template <typename T>
void Trainer<T>::AddLoss(double loss) {
  losses_.push_back(loss);
  while (static_cast<int>(losses_.size()) > solver_->param().average_loss()) losses_.pop_front();
  smoothed_loss_ =
      std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

// As in PMLS-Caffe, losses of single iterations.
template <typename T>
void Trainer<T>::AddOutputs(int64_t iteration, const std::vector<Score>& scores) {
  const double seconds = since_start_.Seconds();
  outputs_->AddTrain({.iteration = iteration,
                      .seconds = seconds,
                      .loss = losses_.empty() ? smoothed_loss_ : losses_.back(),
                      .scores = scores});
  const StepVotes own = solver_->OwnLoss();
  outputs_->AddOwn({.iteration = iteration,
                    .seconds = seconds,
                    .loss = own.loss / own.weight,
                    .scores = OwnOutputs(solver_->team())});
}

template <typename T>
void Trainer<T>::WriteOutputs() {
  if (outputs_) group_.Together("the files of --net_outputs", [&] { outputs_->Write(); });
}

template <typename T>
void Trainer<T>::Display(int64_t iteration) {
  const std::vector<Score> scores = MeanOutputs(group_, solver_->team());
  if (losses_.empty()) {  // the votes of the first iterations are still under way (--staleness)
    const StepVotes own = solver_->OwnLoss();
    double sums[] = {own.loss, own.weight};
    group_.Sum(sums);
    smoothed_loss_ = sums[0] / sums[1];
  }
  if (outputs_) AddOutputs(iteration, scores);
  if (!root()) return;
  const int64_t iterations = iteration - displayed_at_;
  const double seconds = since_display_.Seconds();
  const double per_second = seconds > 0 ? static_cast<double>(iterations) / seconds : 0;
  LogInfo("Iteration {} ({:g} iter/s, {:g}s/{} iters), loss = {:g}", iteration, per_second, seconds,
          solver_->param().display(), smoothed_loss_);
  if (metrics_) {
    metrics_->Add(iteration, "train", 0, "loss", smoothed_loss_);
    metrics_->Add(iteration, "train", 0, "lr", solver_->rate());
    if (iterations > 0) {
      metrics_->Add(iteration, "train", 0, "images_per_second",
                    per_second * static_cast<double>(rows_ * solver_->param().iter_size()));
      metrics_->Add(iteration, "train", 0, "data_wait", (DataWait() - data_wait_shown_) / seconds);
    }
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    LogInfo("    Train net output #{}: {} = {:g}{}", i, scores[i].blob, scores[i].value,
            LossPart(scores[i]));
    if (metrics_ && scores[i].Label() != "loss") {
      metrics_->Add(iteration, "train", 0, scores[i].Label(), scores[i].value);
    }
  }
  LogInfo("Iteration {}, lr = {:g}", iteration, solver_->rate());
  if (metrics_) metrics_->Flush();
  since_display_.Reset();
  displayed_at_ = iteration;
  data_wait_shown_ = DataWait();
}

// How stale the weights were that the workers of all ranks have read.
template <typename T>
void Trainer<T>::ShowStaleness() {
  const std::vector<int64_t> mine = solver_->staleness_seen();
  if (mine.empty()) return;
  std::vector<double> reads(mine.begin(), mine.end());
  group_.Sum(reads);
  const double all = std::max(std::accumulate(reads.begin(), reads.end(), 0.0), 1.0);
  std::string text;
  for (size_t lag = 0; lag < reads.size(); ++lag) {
    text += fmt::format("{}{}: {:.1f} %", lag == 0 ? "" : ", ", lag, 100 * reads[lag] / all);
    if (metrics_) {
      metrics_->Add(solver_->iteration(), "train", 0, fmt::format("staleness[{}]", lag),
                    reads[lag] / all);
    }
  }
  if (root()) LogInfo("staleness of the weights that were read, in iterations: {}", text);
}

template <typename T>
double Trainer<T>::DataWait() const {
  double seconds = DataWaitSeconds(solver_->net());
  for (const auto& net : solver_->test_nets()) seconds += DataWaitSeconds(*net);
  return seconds;
}

template <typename T>
ProgressState Trainer<T>::ProgressNow() const {
  ProgressState state;
  state.phase = "train";
  state.done = solver_->iteration();
  state.total = solver_->param().max_iter();
  state.start = start_iteration_;
  if (!losses_.empty()) {
    state.loss = smoothed_loss_;
    state.rate = solver_->rate();
  }
  const double seconds = since_start_.Seconds();
  if (seconds > 0) {
    state.images_per_second =
        static_cast<double>((state.done - state.start) * rows_ * solver_->param().iter_size()) /
        seconds;
    state.data_wait = DataWait() / seconds;
    state.comm_wait = CommWait() / seconds;
  }
  return state;
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
