#include "carafe/comm/group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/base/log.h"
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

constexpr size_t kBroadcastPiece = size_t{32} << 20;

// Makes the thread poll `poller` until it is done.
template <typename P>
void RunPoller(CommThread& thread, const std::shared_ptr<P>& poller, std::string_view what) {
  thread.Check(what);
  struct Attached {
    CommThread& thread;
    const std::shared_ptr<P>& poller;
    ~Attached() { thread.Retire(poller); }
  };
  thread.Attach(poller.get());
  const Attached attached{thread, poller};
  thread.Await(
      what, [&] { return poller->done(); }, poller.get());
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

bool Group::shares_memory() const { return thread_ && thread_->shares_memory(); }

void Group::Barrier(std::string_view what) { AllGather("", what); }

void Group::Broadcast(void* data, size_t bytes, int root, std::string_view what) {
  Ensure(root >= 0 && root < size(), "a broadcast from a rank that does not exist");
  if (!thread_) return;
  char* at = static_cast<char*>(data);
  do {  // in pieces, which are copied
    const size_t piece = std::min(bytes, kBroadcastPiece);
    std::vector<char> copy(piece);
    if (rank_ == root && piece > 0) std::memcpy(copy.data(), at, piece);
    const auto poller =
        std::make_shared<BroadcastPoller>(rank_, size(), ++calls_, std::move(copy), root);
    RunPoller(*thread_, poller, what);
    if (rank_ != root && piece > 0) std::memcpy(at, poller->data().data(), piece);
    at += piece;
    bytes -= piece;
  } while (bytes > 0);
}

std::vector<std::string> Group::AllGather(const std::string& mine, std::string_view what) {
  common_error_.clear();  // the caller has gone on, so the next error is another one
  if (!thread_) return {mine};
  const auto poller = std::make_shared<AllGatherPoller>(rank_, size(), ++calls_, mine);
  RunPoller(*thread_, poller, what);
  return poller->Take();
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

void Group::Together(std::string_view what, const std::function<void()>& body) {
  std::string mine;
  try {
    if (body) body();
  } catch (const Error& error) {
    if (!thread_) throw;
    mine = Serialize(error.fields());
  }
  if (!thread_) return;
  const std::vector<std::string> errors = AllGather(mine, what);
  const auto ok = [](const std::string& error) { return error.empty(); };
  const auto first = std::ranges::find_if_not(errors, ok);
  if (first == errors.end()) return;
  ErrorFields fields = DeserializeError(*first);
  if (std::ranges::any_of(errors, ok) && fields.origin.empty()) {
    const auto rank = first - errors.begin();
    fields.origin = fmt::format("rank {} on {}", rank, At(hosts_, rank));
  }
  common_error_ = fields.Text();
  ThrowError(fields);
}

void Group::OnRoot(std::string_view what, const std::function<void()>& body) {
  Together(what, rank_ == 0 ? body : nullptr);
}

void Group::Fail(const std::string& text, const std::function<void()>& report) noexcept {
  bool reports = rank_ == 0;
  try {
    failed_together_ = thread_ && text == common_error_;
    if (failed_together_) {
      if (reports && report) report();
      Barrier("rank 0 to print the error");
      return;
    }
    if (thread_) reports = thread_->Fail(text);
    if (reports && report) report();
    if (reports && thread_) thread_->Reported();
  } catch (const std::exception& error) {
    LogWarning("rank {}, while ending: {}", rank_, error.what());
  }
}

void Group::Check() {
  if (thread_) thread_->Check("the next step");
}

bool Group::AllKnow() const noexcept { return !thread_ || thread_->AllAcknowledged(); }

void Group::WatchForEnd(const std::atomic<bool>& asked) {
  if (thread_) thread_->WatchForEnd(&asked);
}

void Group::Abort(const std::string& message) noexcept {
  if (thread_) thread_->Abort(message);
}

void Group::Announce(const std::string& work) {
  if (thread_) thread_->AnnounceWork(work);
}

}  // namespace carafe
