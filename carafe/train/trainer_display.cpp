// What a run shows on its way: Caffe's lines, the metrics, the progress line.
#include <fmt/format.h>

#include <numeric>

#include "carafe/base/log.h"
#include "carafe/train/trainer.h"

namespace carafe {

template <typename T>
void Trainer<T>::AddLoss(double loss) {
  losses_.push_back(loss);
  while (static_cast<int>(losses_.size()) > solver_->param().average_loss()) losses_.pop_front();
  smoothed_loss_ =
      std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
}

// The train net's outputs are means over the workers, weighed by their rows.
template <typename T>
void Trainer<T>::Display(int64_t iteration, const StepVotes&) {
  std::vector<Score> scores = OutputScores(stream_, solver_->net());
  const Replica& replica = solver_->replica();
  const double weight = replica.global_batch > 0
                            ? static_cast<double>(RowsOf(replica, replica.global_batch)) /
                                  static_cast<double>(replica.global_batch)
                            : 1.0 / replica.count;
  std::vector<double> values;
  for (const Score& score : scores) values.push_back(score.value * weight);
  group_.Sum(values);
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
      metrics_->Add(iteration, "train", 0, "data_wait",
                    (data_wait_.seconds() - data_wait_shown_) / seconds);
    }
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i].value = values[i];
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
  data_wait_shown_ = data_wait_.seconds();
}

template <typename T>
ProgressState Trainer<T>::ProgressNow() const {
  ProgressState state;
  state.phase = "train";
  state.done = solver_->iteration();
  state.total = solver_->param().max_iter();
  state.start = start_iteration_;
  state.loss = smoothed_loss_;
  state.rate = solver_->rate();
  const double seconds = since_start_.Seconds();
  if (seconds > 0) {
    state.images_per_second =
        static_cast<double>((state.done - state.start) * rows_ * solver_->param().iter_size()) /
        seconds;
    state.data_wait = data_wait_.seconds() / seconds;
    state.comm_wait = solver_->exchange()->stats().wait_seconds / seconds;
  }
  return state;
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace carafe
