#include "carafe/comm/group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/comm/collectives.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/core/tree_sum.h"

namespace carafe {
namespace {

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Has the thread poll `poller` until it is done.
template <typename P>
void RunPoller(CommThread& thread, P& poller, std::string_view what) {
  thread.Check(what);
  struct Attached {
    CommThread& thread;
    Poller* poller;
    ~Attached() { thread.Detach(poller); }
  };
  thread.Attach(&poller);
  const Attached attached{thread, &poller};
  thread.Await(
      what, [&] { return poller.done(); }, &poller);
}

}  // namespace

Group::Group() : hosts_{HostName()} {}

Group::Group(std::unique_ptr<CommThread> thread)
    : thread_(std::move(thread)), rank_(thread_->rank()), hosts_(thread_->hosts()) {
  local_size_ = 0;
  for (int r = 0; r < size(); ++r) {
    if (hosts_[r] != host()) continue;
    if (r < rank_) ++local_rank_;
    ++local_size_;
  }
}

Group::~Group() = default;

void Group::Barrier(std::string_view what) { AllGather("", what); }

void Group::Broadcast(void* data, size_t bytes, int root, std::string_view what) {
  Ensure(root >= 0 && root < size(), "a broadcast from a rank that does not exist");
  if (!thread_) return;
  BroadcastPoller poller(rank_, size(), ++calls_, data, bytes, root);
  RunPoller(*thread_, poller, what);
}

std::vector<std::string> Group::AllGather(const std::string& mine, std::string_view what) {
  if (!thread_) return {mine};
  AllGatherPoller poller(rank_, size(), ++calls_, mine);
  RunPoller(*thread_, poller, what);
  return poller.Take();
}

void Group::Sum(std::span<double> values) {
  if (!thread_) return;
  const std::string mine(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  std::vector<std::vector<double>> all;
  std::vector<const double*> parts;
  for (const std::string& part : AllGather(mine, "a sum over all ranks")) {
    if (part.size() != mine.size())
      throw CommError(fmt::format("rank {} sums {} values, another rank {}", rank_, values.size(),
                                  part.size() / sizeof(double)),
                      "all ranks must run the same net");
    auto& copy = all.emplace_back(values.size());
    if (!part.empty()) std::memcpy(copy.data(), part.data(), part.size());
    parts.push_back(copy.data());
  }
  TreeSum<double>(parts, static_cast<int64_t>(values.size()), values.data());
}

void Group::Agree(const std::string& my_error) {
  const std::vector<std::string> errors = AllGather(my_error, "whether all ranks are well");
  int first = -1;
  int failing = 0;
  for (int r = size() - 1; r >= 0; --r) {
    if (errors[r].empty()) continue;
    first = r;
    ++failing;
  }
  if (first < 0) return;
  if (first == 0 && failing == size()) throw Error(errors[0]);
  throw Error(fmt::format("rank {} on {}: {}", first, hosts_[first], errors[first]));
}

void Group::Fail(const std::string& text) noexcept {
  if (thread_) thread_->Fail(text);
}

void Group::Check() {
  if (thread_) thread_->Check("the next step");
}

bool Group::speaks() const {
  if (!thread_) return true;
  const auto failure = thread_->failure();
  if (!failure) return rank_ == 0;
  if (failure->dead) return rank_ == (failure->rank == 0 ? 1 : 0);
  return rank_ == 0 || (failure->rank == rank_ && !thread_->Noted(0));
}

void Group::Abort(const std::string& message) noexcept {
  if (thread_) thread_->Abort(message);
}

void Group::Announce(const std::string& work) {
  if (thread_) thread_->Announce(work);
}

}  // namespace carafe
