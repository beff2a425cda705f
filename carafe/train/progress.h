// The live line of a long run: redrawn in place on a terminal, absent in a pipe.
//   train  340/1000  34%  loss 0.123  lr 0.0095  1,234 img/s  left 0:12  waiting: data 1%, ranks 5%
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "carafe/base/timer.h"

namespace carafe {

struct ProgressState {
  std::string phase;                       // "train", "test"
  int64_t done = 0, total = 0, start = 0;  // start: where this run began (resume)
  std::optional<double> loss;              // none before the first step
  double rate = 0;                         // learning rate; shown with the loss
  double images_per_second = 0;
  double data_wait = 0, comm_wait = 0;  // shares of the time, 0 to 1
};

// kAuto: shown if stderr is a terminal.
enum class ProgressMode { kAuto, kBar, kNone };

// One per process, used by rank 0's main thread. Log lines go through between two drawings: the
// line is wiped before and comes back with the next Show.
class Progress {
 public:
  explicit Progress(ProgressMode mode);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool shown() const { return shown_; }
  void Show(const ProgressState& state);  // at most ten times a second, the last one always
  void Clear();

  // One line of at most `columns` characters after `seconds` of this run: what matters least is
  // left out first (waiting, rate, images per second, time left, percent, loss).
  static std::string Text(const ProgressState& state, double seconds, int columns);

 private:
  const bool shown_;
  Timer since_start_, since_drawn_;
  bool drawn_ = false;
};

}  // namespace carafe
