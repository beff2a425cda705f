#include "carafe/comm/run_ranks.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "carafe/base/mutex.h"
#include "carafe/base/thread_annotations.h"
#include "carafe/comm/comm_thread.h"
#include "carafe/comm/shm_transport.h"
#include "carafe/comm/tcp_transport.h"
#include "carafe/comm/thread_transport.h"

namespace carafe {
namespace {

class FirstError {
 public:
  void Keep() {  // in a catch block
    MutexLock lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void Rethrow() const {
    MutexLock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  mutable Mutex mutex_;
  std::exception_ptr error_ CARAFE_GUARDED_BY(mutex_);
};

void RunThreads(int n, const std::function<void(int)>& body) {
  FirstError error;
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (...) {
        error.Keep();
      }
    });
  for (std::thread& thread : threads) thread.join();
  error.Rethrow();
}

}  // namespace

std::unique_ptr<Transport> ThroughSharedMemory(std::unique_ptr<Transport> threads) {
  return WithSharedMemory(std::move(threads), {.identity = "threads of one process"});
}

std::unique_ptr<Transport> ThroughSockets(std::unique_ptr<Transport> threads) {
  const int rank = threads->rank();
  return WithSockets(std::move(threads), {.identity = fmt::format("the host of rank {}", rank),
                                          .addresses = {"127.0.0.1"}});
}

void RunRanks(int n, const std::function<void(Group&)>& rank_main, const CommTimeouts& timeouts,
              const RankLink& link) {
  if (n == 1) {
    Group group;
    rank_main(group);
    return;
  }
  FirstError culprit;
  FirstError error;
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(n);
  RunThreads(n, [&](int r) {
    const auto transport = [&]() -> std::unique_ptr<Transport> {
      std::unique_ptr<Transport> threads = MakeThreadTransport(hub, r);
      return link ? link(std::move(threads)) : std::move(threads);
    };
    Group group(std::make_unique<CommThread>(transport, timeouts));
    try {
      rank_main(group);
    } catch (const std::exception& e) {
      error.Keep();
      group.Fail(e.what());
      // The errors of the others may have been kept first, but they only repeat this one.
      if (group.thread()->failure()->rank == r) culprit.Keep();
    }
  });
  culprit.Rethrow();
  error.Rethrow();
}

void RunTransports(int n, const std::function<void(Transport&)>& rank_main) {
  FirstError error;
  const std::shared_ptr<ThreadHub> hub = MakeThreadHub(n);
  RunThreads(n, [&](int r) {
    const std::unique_ptr<Transport> transport = MakeThreadTransport(hub, r);
    try {
      rank_main(*transport);
      transport->Finish();
    } catch (...) {
      // Kept while the transport still exists: once it is destroyed, the other ranks throw because
      // this one is lost, and their errors could come first.
      error.Keep();
    }
  });
  error.Rethrow();
}

}  // namespace carafe
