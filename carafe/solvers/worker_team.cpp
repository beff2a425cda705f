#include "carafe/solvers/worker_team.h"

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/core/tree_sum.h"

namespace carafe {

TeamSum::TeamSum(int workers, GroupSum& group)
    : group_(group), parts_(static_cast<size_t>(workers)), given_(parts_.size()) {
  for (int w = 0; w < workers; ++w) {
    parts_[static_cast<size_t>(w)].team = this;
    parts_[static_cast<size_t>(w)].worker = w;
  }
}

void TeamSum::Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
  changed_.wait(lock, [&] { return broken_ || done(); });
  if (broken_) throw CommError("another worker of this rank has failed", "see its error");
}

void TeamSum::Sum(int worker, std::span<double> values) {
  std::unique_lock lock(mutex_);
  const int64_t round = round_;
  given_[static_cast<size_t>(worker)] = values;
  ++here_;
  changed_.notify_all();
  if (worker != 0) {
    Await(lock, [&] { return round_ > round; });
    return;
  }
  Await(lock, [&] { return here_ == parts_.size(); });
  std::vector<const double*> parts;
  for (const std::span<double>& given : given_) {
    Ensure(given.size() == values.size(), "the workers sum arrays of different sizes");
    parts.push_back(given.data());
  }
  TreeSum<double>(parts, static_cast<int64_t>(values.size()), values.data());
  lock.unlock();  // the others rest meanwhile
  group_.Sum(values);
  lock.lock();
  for (std::span<double>& given : given_) std::copy(values.begin(), values.end(), given.begin());
  here_ = 0;
  ++round_;
  changed_.notify_all();
}

void TeamSum::BreakOff() {
  std::lock_guard lock(mutex_);
  broken_ = true;
  changed_.notify_all();
}

template <typename T>
WorkerTeam<T>::WorkerTeam(const TeamSettings& settings, Net<T>& first, Stream& stream,
                          const std::function<std::unique_ptr<Net<T>>(Stream&)>& make_net)
    : settings_(settings), members_(static_cast<size_t>(settings.workers)) {
  const bool given = !settings.other_streams.empty();
  Ensure(!given || Count(settings.other_streams) == size() - 1, "a stream for each other worker");
  members_[0].net = &first;
  members_[0].stream = &stream;
  for (int w = 1; w < size(); ++w) {
    Member& member = members_[static_cast<size_t>(w)];
    if (!given) member.own_stream = std::make_unique<Stream>(stream.device(), stream.threads());
    member.stream = given ? At(settings.other_streams, w - 1) : member.own_stream.get();
    member.own_net = make_net(*member.stream);
    member.net = member.own_net.get();
  }
  for (int w = 1; w < size(); ++w)
    members_[static_cast<size_t>(w)].thread = std::thread([this, w] { Serve(w); });
}

template <typename T>
WorkerTeam<T>::~WorkerTeam() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    begin_.notify_all();
  }
  for (Member& member : members_)
    if (member.thread.joinable()) member.thread.join();
}

template <typename T>
Replica WorkerTeam<T>::replica(int worker) const {
  Replica replica = settings_.replica;
  replica.index += worker;
  return replica;
}

template <typename T>
void WorkerTeam<T>::CopyValues() {
  for (int w = 1; w < size(); ++w) {
    if (shares_values(w)) continue;
    for (int p = 0; p < Count(net(0).params()); ++p)
      At(net(w).params(), p)
          .blob->SetData(stream(w), At(net(0).params(), p).blob->DataToHost(stream(0)));
  }
}

template <typename T>
void WorkerTeam<T>::Connect(GroupSum& group) {
  if (settings_.replica.count > 1) sum_ = std::make_unique<TeamSum>(size(), group);
}

template <typename T>
RunContext WorkerTeam<T>::Context(int worker, const Pass& pass) {
  return {.stream = stream(worker),
          .pass = pass,
          .replica = replica(worker),
          .group = sum_ ? &sum_->part(worker) : nullptr,
          .sync_batch_norm = settings_.sync_batch_norm,
          .trace = settings_.trace};
}

template <typename T>
void WorkerTeam<T>::Do(int worker) noexcept {
  try {
    (*work_)(worker);
  } catch (...) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    if (sum_) sum_->BreakOff();
  }
}

template <typename T>
void WorkerTeam<T>::Serve(int worker) {
  int64_t done = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    begin_.wait(lock, [&] { return stop_ || round_ > done; });
    if (stop_) return;
    done = round_;
    lock.unlock();
    Do(worker);
    lock.lock();
    if (--busy_ == 0) end_.notify_all();
  }
}

template <typename T>
void WorkerTeam<T>::Run(const std::function<void(int)>& work) {
  if (size() == 1) {
    work(0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    error_ = nullptr;
    busy_ = size() - 1;
    ++round_;
    begin_.notify_all();
  }
  Do(0);
  std::unique_lock lock(mutex_);
  end_.wait(lock, [&] { return busy_ == 0; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

template class WorkerTeam<float>;
template class WorkerTeam<double>;

}  // namespace carafe
