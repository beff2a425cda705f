#include "carafe/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {
namespace {

std::atomic<bool> line_on_screen{false};

void WipeLine() {
  if (line_on_screen.exchange(false)) std::fputs("\r\033[K", stderr);
}

bool Wanted(const std::string& mode) {
  if (mode == "bar") return true;
  if (mode == "none" || mode == "plain") return false;
  if (mode == "auto") {
    const char* terminal = std::getenv("TERM");
    return isatty(STDERR_FILENO) && terminal != nullptr && std::string(terminal) != "dumb";
  }
  throw ConfigError(fmt::format("--progress is \"{}\"", mode), "use auto, bar or none");
}

std::string Duration(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

Progress::Progress(const std::string& mode) : shown_(Wanted(mode)) {
  if (shown_) SetBeforeLogLine(WipeLine);
}

Progress::~Progress() {
  Clear();
  if (shown_) SetBeforeLogLine(nullptr);
}

std::string Progress::Text(const ProgressState& state, double seconds) {
  std::string text = fmt::format("{:<5}  {}/{}", state.phase, state.done, state.total);
  if (state.total > 0) text += fmt::format("  {}%", 100 * state.done / state.total);
  text += fmt::format("  loss {:.4g}  lr {:.4g}", state.loss, state.rate);
  if (state.images_per_second > 0) text += fmt::format("  {:.0f} img/s", state.images_per_second);
  const int64_t here = state.done - state.start;
  if (here > 0 && state.total > state.done) {
    text += "  left " + Duration(seconds / static_cast<double>(here) *
                                 static_cast<double>(state.total - state.done));
  }
  if (state.data_wait > 0.005 || state.comm_wait > 0.005) {
    text += fmt::format("  waiting: data {:.0f}%, ranks {:.0f}%", 100 * state.data_wait,
                        100 * state.comm_wait);
  }
  return text;
}

void Progress::Show(const ProgressState& state) {
  const bool last = state.done == state.total;
  if (!shown_ || (drawn_ && since_drawn_.Seconds() < 0.1 && !last)) return;
  drawn_ = true;
  since_drawn_.Reset();
  line_on_screen = true;
  const std::string line = "\r\033[K" + Text(state, since_start_.Seconds());
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

void Progress::Clear() {
  if (shown_) {
    WipeLine();
    std::fflush(stderr);
  }
}

}  // namespace carafe
