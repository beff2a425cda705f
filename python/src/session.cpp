#include "python/src/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/base/random.h"
#include "carafe/comm/launcher.h"
#include "carafe/train/device_choice.h"
#include "python/src/interpreter.h"

namespace py = pybind11;

namespace carafe::python {

Session& Session::Get() {
  static Session& session = *new Session;  // ended by Close, not by the end of the process
  return session;
}

std::shared_ptr<Group> Session::group() {
  if (!group_ && IsEmbedded()) group_ = std::make_shared<Group>();  // the program has the ranks
  if (group_) return group_;
  std::shared_ptr<Group> made;
  {
    const py::gil_scoped_release unlocked;
    const std::lock_guard lock(starting_);
    if (!started_) started_ = StartGroup();
    made = started_;
  }
  if (!group_) group_ = made;
  return group_;
}

void Session::Close() {
  const py::gil_scoped_release unlocked;
  for (const auto& action : closing_) {
    if (const auto live = action.lock()) (*live)();
  }
  closing_.clear();
  started_.reset();
  group_.reset();
}

void Session::Fail(const std::string& text) {
  if (!group_ || group_->size() == 1 || failed_) return;
  failed_ = true;
  const py::gil_scoped_release unlocked;
  group_->Fail(text, [this] { told_ = true; });
}

void Session::set_seed(uint64_t seed) {
  seed_ = seed;
  nets_ = 0;
}

uint64_t Session::NextSeed() {
  if (!seed_) return std::random_device{}();
  return nets_++ == 0 ? *seed_ : MixSeed(*seed_, nets_);
}

std::shared_ptr<Stream> NewStream() {
  const auto group = Session::Get().group();
  return std::make_shared<Stream>(CpuDevice(), ChooseThreads(std::nullopt, *group));
}

namespace {

// Where the program has the ranks, its launcher tells which one this is.
int Rank() { return IsEmbedded() ? DetectLaunch().rank : Session::Get().group()->rank(); }
int Size() {
  return IsEmbedded() ? std::max(DetectLaunch().size, 1) : Session::Get().group()->size();
}

void WantGpu() {
  Session& session = Session::Get();
  if (!session.gpu.empty()) return;
  session.gpu = "asked";
  LogWarning("Python runs on the CPU: set_mode_gpu and set_device have no effect");
}

void SetReplica(int count, int rank) {
  if (count < 1 || rank < 0) {
    throw ConfigError(fmt::format("solver rank {} of {}", rank, count),
                      "the count is 1 or more, the rank from 0 on and below the count");
  }
  Session::Get().replica = {.index = rank, .count = count};
}

// glog's numbers: 0 info, 1 warning, 2 error, 3 fatal.
void InitLog(int level, bool to_stderr) {
  constexpr LogLevel kLevels[] = {LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError,
                                  LogLevel::kNone};
  SetLogLevel(kLevels[std::clamp(level, 0, 3)]);
  SetLogToStderr(to_stderr);
}

}  // namespace

void BindSession(py::module_& module) {
  module.def("rank", &Rank, "This process among those that mpirun started, from 0 on.");
  module.def("size", &Size, "How many processes mpirun started; 1 without it.");
  module.def("_is_embedded", &IsEmbedded);
  module.def("_close", [] { Session::Get().Close(); });
  module.def("_fail", [](const std::string& text) { Session::Get().Fail(text); });
  module.def("_tells_user", [] { return Session::Get().tells_user(); });
  module.def("set_mode_cpu", [] {});
  module.def("set_mode_gpu", &WantGpu);
  module.def(
      "set_device", [](int) { WantGpu(); }, py::arg("device"));
  module.def(
      "set_random_seed", [](int64_t seed) { Session::Get().set_seed(static_cast<uint64_t>(seed)); },
      py::arg("seed"));
  module.def("solver_count", [] { return Session::Get().replica.count; });
  module.def("solver_rank", [] { return Session::Get().replica.index; });
  module.def(
      "set_solver_count", [](int count) { SetReplica(count, Session::Get().replica.index); },
      py::arg("count"));
  module.def(
      "set_solver_rank", [](int rank) { SetReplica(Session::Get().replica.count, rank); },
      py::arg("rank"));
  module.def(
      "set_multiprocess", [](bool) {}, py::arg("on"));
  module.def("init_log", &InitLog, py::arg("level") = 0, py::arg("to_stderr") = true,
             "Shows log lines from this level on: 0 info, 1 warnings, 2 errors, 3 none.");
  module.def(
      "log", [](const std::string& text) { LogInfo("{}", text); }, py::arg("text"));
}

}  // namespace carafe::python
