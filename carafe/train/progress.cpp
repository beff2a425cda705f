#include "carafe/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/base/log.h"

namespace carafe {
namespace {

std::atomic<bool> line_on_screen{false};

void WipeLine() {
  if (line_on_screen.exchange(false)) std::fputs("\r\033[K", stderr);
}

bool Wanted(ProgressMode mode) {
  if (mode != ProgressMode::kAuto) return mode == ProgressMode::kBar;
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && terminal != nullptr && std::string(terminal) != "dumb";
}

// Asked at every drawing: windows are resized.
int TerminalColumns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const int given = columns == nullptr ? 0 : std::atoi(columns);
  return given > 0 ? given : 80;
}

struct Part {
  std::string text;
  int importance;  // 0 always stays; the largest goes first
};

std::string Joined(const std::vector<Part>& parts) {
  std::string text;
  for (const Part& part : parts) text += (text.empty() ? "" : "  ") + part.text;
  return text;
}

std::string Duration(double seconds) {
  const int64_t s = static_cast<int64_t>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

Progress::Progress(ProgressMode mode) : shown_(Wanted(mode)) {
  if (shown_) SetBeforeLogLine(WipeLine);
}

Progress::~Progress() {
  Clear();
  if (shown_) SetBeforeLogLine(nullptr);
}

std::string Progress::Text(const ProgressState& state, double seconds, int columns) {
  std::vector<Part> parts = {
      {fmt::format("{:<5}  {}/{}", state.phase, state.done, state.total), 0}};
  if (state.total > 0) parts.push_back({fmt::format("{}%", 100 * state.done / state.total), 2});
  if (state.loss) {
    parts.push_back({fmt::format("loss {:.4g}", *state.loss), 1});
    parts.push_back({fmt::format("lr {:.4g}", state.rate), 5});
  }
  if (state.images_per_second > 0)
    parts.push_back({fmt::format("{:.0f} img/s", state.images_per_second), 4});
  const int64_t here = state.done - state.start;
  if (here > 0 && state.total > state.done) {
    parts.push_back({"left " + Duration(seconds / static_cast<double>(here) *
                                        static_cast<double>(state.total - state.done)),
                     3});
  }
  if (state.data_wait > 0.005 || state.comm_wait > 0.005) {
    parts.push_back({fmt::format("waiting: data {:.0f}%, ranks {:.0f}%", 100 * state.data_wait,
                                 100 * state.comm_wait),
                     6});
  }
  std::string text = Joined(parts);
  for (int importance = 6; importance > 0 && Count(text) > columns; --importance) {
    std::erase_if(parts, [&](const Part& part) { return part.importance == importance; });
    text = Joined(parts);
  }
  return text.substr(0, static_cast<size_t>(std::max(columns, 0)));
}

void Progress::Show(const ProgressState& state) {
  const bool last = state.done == state.total;
  if (!shown_ || (drawn_ && since_drawn_.Seconds() < 0.1 && !last)) return;
  drawn_ = true;
  since_drawn_.Reset();
  line_on_screen = true;
  const std::string line = "\r\033[K" + Text(state, since_start_.Seconds(), TerminalColumns() - 1);
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
