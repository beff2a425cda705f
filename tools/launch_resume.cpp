#include "tools/launch_resume.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/solvers/solver_spec.h"
#include "carafe/solvers/state_file.h"
#include "carafe/solvers/training_state.h"
#include "tools/command_words.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

bool IsTraining(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string program = fs::path(command[0]).filename().string();
  const bool ours = program == "carafe" || program == "caffe";
  return command[0] == "train" || (ours && command.size() > 1 && command[1] == "train");
}

}  // namespace

TrainingResume::TrainingResume(const std::vector<std::string>& command) : command_(command) {
  if (!IsTraining(command))
    throw ConfigError("--restarts resumes a training, and this command is none",
                      "launch `train`, or omit --restarts");
  const std::string solver = FlagValue(command, "solver");
  if (solver.empty()) throw ConfigError("the command has no --solver", "give train its --solver");
  prefix_ = LoadSolverSpec(solver).param.snapshot_prefix();
  const std::string run_dir = FlagValue(command, "run_dir");
  log_ = run_dir.empty() ? prefix_ + "_train.log" : run_dir + "/train.log";
  incidents_ = prefix_ + "_incidents.csv";
  for (const FoundSnapshot& found : FindSnapshots(prefix_))
    others_.emplace(found.state, found.written_us);
}

std::optional<FoundSnapshot> TrainingResume::Newest() const {
  for (const FoundSnapshot& found : FindSnapshots(prefix_)) {
    if (others_.contains({found.state, found.written_us})) continue;
    try {
      CheckSnapshotFiles(found.state);
      return found;
    } catch (const DataError& error) {
      LogWarning("skipping {}: {}", found.state, error.what());
    }
  }
  return {};
}

std::vector<std::string> TrainingResume::Command(bool same_ranks) const {
  const std::optional<FoundSnapshot> newest = Newest();
  const bool batch_is_fixed = same_ranks || !FlagValue(command_, "global_batch").empty();
  if (!newest) {
    if (!batch_is_fixed)
      throw ConfigError("there is no snapshot yet that says how large the batch of all ranks is",
                        "give train --global_batch, or start again with all hosts");
    return command_;
  }
  std::vector<std::string> command = WithoutFlag(WithoutFlag(command_, "snapshot"), "weights");
  command.push_back("--snapshot=" + newest->state);
  if (!batch_is_fixed) {
    const TrainingState state = FromStateHead(OpenStateFile(newest->state).head);
    command.push_back(fmt::format("--global_batch={}", state.global_batch()));
  }
  return command;
}

int64_t TrainingResume::LastIterationShown() const {
  std::ifstream log(log_);
  int64_t last = -1;
  for (std::string line; std::getline(log, line);) {
    const size_t at = line.find("] Iteration ");
    long long iteration = 0;
    if (at != std::string::npos &&
        std::sscanf(line.c_str() + at, "] Iteration %lld", &iteration) == 1)
      last = iteration;
  }
  return last;
}

std::string TrainingResume::Record(int attempt, int ranks, int code, const std::string& who) const {
  const std::optional<FoundSnapshot> newest = Newest();
  const int64_t resume = newest ? newest->iteration : 0;
  const int64_t lost = std::max<int64_t>(0, LastIterationShown() - resume);
  std::error_code ignored;
  fs::create_directories(fs::path(incidents_).parent_path(), ignored);
  const bool is_new = !fs::exists(incidents_, ignored);
  std::ofstream file(incidents_, std::ios::app);
  if (is_new) file << "time,attempt,ranks,exit_code,failed,resumes_at,iterations_lost\n";
  file << fmt::format("{:%Y-%m-%dT%H:%M:%SZ},{},{},{},{},{},{}\n", fmt::gmtime(std::time(nullptr)),
                      attempt, ranks, code, who, resume, lost);
  file.flush();
  if (!file) LogWarning("{} cannot be written: {}", incidents_, std::strerror(errno));
  return fmt::format("attempt {} failed with code {}{}; iterations lost: {}", attempt, code,
                     who.empty() ? "" : " (" + who + ")", lost);
}

}  // namespace carafe
