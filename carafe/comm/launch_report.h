// What the ranks of `carafe launch` report to it: their start, their errors and their end. An
// mpirun may hang although the ranks have ended (a host that is cut off or stopped); the launcher
// then knows which rank is missing, and ends what is left.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "carafe/comm/tcp_connection.h"

namespace carafe {

// Passed to the ranks by the environment: "KEY PORT ADDRESS...".
constexpr char kLaunchVariable[] = "CARAFE_LAUNCH";

struct RankReport {
  bool ended = false;  // else it has started, or is failing
  int rank = 0;
  int code = 0;  // exit code, if it has ended
  std::string host;
  bool would_repeat = false;  // it has ended by an error of settings, which a restart would repeat
  bool failing = false;       // it has met an error, and will end when others know of it
};

// Of a rank: sends a report if this process was started by `carafe launch`. A report that cannot be
// sent within some seconds is dropped.
void ReportToLauncher(const RankReport& report) noexcept;

// Of the launcher. Used by one thread.
class LaunchReports {
 public:
  explicit LaunchReports(const std::vector<std::string>& addresses);  // of this host
  // For kLaunchVariable; "" if nothing can be received.
  const std::string& variable() const { return variable_; }
  // Unknown to all but the ranks of this job: it is in their environment.
  const std::string& key() const { return key_; }
  // Waits up to `seconds` for reports. One without the key is ignored.
  std::vector<RankReport> Receive(double seconds);

 private:
  std::string key_, variable_;
  std::vector<Descriptor> listeners_;
};

// Decides when a job that has begun to end has had its time. Used by one thread.
class JobEnd {
 public:
  // `ranks`: 0 if mpirun decides; then those count that have started. `wait`: --comm_timeout, for
  // which ranks may wait for each other.
  JobEnd(int ranks, double wait) : ranks_(ranks), wait_(wait) {}
  void Add(const RankReport& report, double now);  // `now` in seconds
  // "", or which ranks are missing although their time is up.
  std::string Late(double now) const;
  // The exit code of the job if all ranks have ended and mpirun has had its time. After an error
  // Open MPI's sleeps twice odls_base_sigkill_timeout, 20 s, before it ends.
  std::optional<int> Code(double now) const;

  bool would_repeat() const { return would_repeat_; }
  // Of a job that has ended: "rank 2 on node3", which has not started or says nothing while others
  // fail, else the first that failed; "" if all is well or nothing is known.
  std::string Culprit() const;

 private:
  static constexpr double kGrace = 10;  // seconds for mpirun to end the ranks itself
  std::string NameOf(int rank) const;
  int Ranks() const;
  bool AllEnded() const;

  const int ranks_;
  const double wait_;
  std::map<int, std::string> hosts_;  // of ranks that have started
  std::map<int, int> codes_;          // of ranks that have ended
  double deadline_ = -1;              // -1: none has ended
  double last_ = 0;                   // when the last one ended
  RankReport first_;                  // that ended
  std::set<int> failing_;             // ranks that have met an error
  int first_bad_ = -1;                // the first of them
  bool would_repeat_ = false;
};

}  // namespace carafe
