// What thread ranks cannot show: the same calls over a real MPI. Run by run.sh under mpirun; prints
// "ok <check>" on rank 0 and returns 0, or prints an error and returns 1.
//   ranks_check sums | group | agree | fail RANK | die RANK | hang RANK | leave RANK | time MB
//   STEPS
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/base/timer.h"
#include "carafe/comm/launcher.h"
#include "carafe/exchange/exchange.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {
namespace {

void Expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("check failed: " + what);
}

// Parameters of these counts, in an arena in reverse order.
struct Arena {
  explicit Arena(const std::vector<int64_t>& counts) : params(counts.size()) {
    int64_t total = 0;
    for (int64_t count : counts) total += count;
    memory.resize(static_cast<size_t>(total));
    values.resize(memory.size());
    int64_t at = 0;
    for (size_t p = counts.size(); p-- > 0;) {
      params[p] = {.name = fmt::format("p{}", p),
                   .count = counts[p],
                   .value = values.data() + at,
                   .gradient = memory.data() + at,
                   .arena_offset = at};
      at += counts[p];
    }
  }
  std::vector<float> memory, values;
  std::vector<ParamInfo<float>> params;
};

void OneStep(Exchange<float>& exchange, const Arena& arena, Stream& stream, double loss) {
  for (int p = static_cast<int>(arena.params.size()); p-- > 0;)
    exchange.GradientReady(0, p, stream);
  exchange.Vote({.loss = loss, .weight = 1});
  exchange.FinishStep();
}

void CheckSums(Group& group, const std::string& scheme) {
  Stream stream;
  const std::vector<std::vector<int64_t>> cases = {
      {}, {0}, {1}, {2, 3}, {500, 0, 25, 7, 20011, 1}, {33, 10, 2097152}};
  for (const std::vector<int64_t>& counts : cases)
    for (size_t bucket_bytes : {size_t{1000}, size_t{4} << 20})
      for (bool overlap : {true, false}) {
        const bool large = !counts.empty() && counts.back() > 1000000;
        if (large && (bucket_bytes < 10000 || !overlap)) continue;
        Arena arena(counts);
        int updates = 0;
        const auto take = [&](int p, Stream&) {  // the value becomes the sum
          const ParamInfo<float>& param = arena.params[p];
          std::copy(param.gradient, param.gradient + param.count, param.value);
          ++updates;
        };
        const auto exchange =
            MakeExchange<float>(scheme, {.group = group,
                                         .params = arena.params,
                                         .update = take,
                                         .received = [&](int, Stream&) { ++updates; },
                                         .bucket_bytes = bucket_bytes,
                                         .overlap = overlap});
        for (int step = 0; step < 3; ++step) {
          for (size_t i = 0; i < arena.memory.size(); ++i)
            arena.memory[i] =
                OrderSensitive<float>(group.rank(), step * 31 + static_cast<int64_t>(i));
          OneStep(*exchange, arena, stream, group.rank());
          const StepVotes verdict = exchange->AwaitVerdict();
          Expect(verdict.weight == group.size(), "the weight of the votes");
          Expect(verdict.loss == group.size() * (group.size() - 1) / 2, "the sum of the losses");
          exchange->Drain(0, stream);
          int64_t wrong = 0;
          for (size_t i = 0; i < arena.memory.size(); ++i) {
            const float sum = TreeByHand<float>(0, group.size(), [&](int r) {
              return OrderSensitive<float>(r, step * 31 + static_cast<int64_t>(i));
            });
            wrong += arena.values[i] != sum;
          }
          Expect(wrong == 0, fmt::format("{} elements of step {}", wrong, step));
        }
        Expect(updates == 3 * static_cast<int>(counts.size()), "one update per step");
      }
}

void CheckGroup(Group& group) {
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{100000}, size_t{8} << 20})
    for (int root = 0; root < group.size(); ++root) {
      std::vector<char> data(bytes);
      for (size_t i = 0; i < bytes; ++i)
        data[i] = group.rank() == root ? static_cast<char>(i * 7 + root) : 0;
      group.Broadcast(data.data(), bytes, root, "bytes");
      bool right = true;
      for (size_t i = 0; i < bytes; ++i) right &= data[i] == static_cast<char>(i * 7 + root);
      Expect(right, "the bytes of a broadcast");
    }
  for (size_t length : {size_t{0}, size_t{3}, size_t{8} << 20}) {
    const auto text = [&](int r) { return std::string(length + r, static_cast<char>('a' + r)); };
    const std::vector<std::string> all = group.AllGather(text(group.rank()), "texts");
    for (int r = 0; r < group.size(); ++r) Expect(all[r] == text(r), "a gathered text");
  }
  double values[2] = {1, static_cast<double>(group.rank())};
  group.Sum(values);
  Expect(values[0] == group.size(), "the sum of ones");
  Expect(values[1] == group.size() * (group.size() - 1) / 2, "the sum of ranks");
  Expect(group.local_size() == group.size(), "all ranks on this host");
  Expect(group.local_rank() == group.rank(), "the local rank");
  for (int i = 0; i < 200; ++i) group.Barrier("barrier");
}

struct Reported {};  // thrown after the report

// To be called where all that is in flight is still alive.
[[noreturn]] void End(Group& group, const std::exception& error) {
  group.Fail(error.what(),
             [&] { fmt::print(stderr, "rank {} says: {}\n", group.rank(), error.what()); });
  throw Reported();
}

// Steps forever, until `at_step_20` ends this rank, or another one's end ends them all.
void StepsUntilTheEnd(Group& group, const std::function<void()>& at_step_20) {
  Stream stream;
  Arena arena({1000, 2097152, 30});
  const auto exchange = MakeExchange<float>(
      "allreduce", {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
  try {
    for (int step = 0;; ++step) {
      for (size_t p = 0; p < arena.params.size(); ++p)
        exchange->AwaitValue(0, static_cast<int>(p), stream);
      if (step == 20) at_step_20();
      OneStep(*exchange, arena, stream, 0);
      exchange->AwaitVerdict();
    }
  } catch (const std::exception& error) {
    End(group, error);
  }
}

void TimeSteps(Group& group, int64_t megabytes, int steps) {
  Stream stream;
  Arena arena(std::vector<int64_t>(8, megabytes * (1 << 20) / 8 / sizeof(float)));
  const auto exchange = MakeExchange<float>(
      "allreduce", {.group = group, .params = arena.params, .update = [](int, Stream&) {}});
  OneStep(*exchange, arena, stream, 0);
  exchange->AwaitVerdict();
  exchange->Drain(0, stream);
  group.Barrier("the start of the clock");
  const Timer timer;
  for (int step = 0; step < steps; ++step) {
    OneStep(*exchange, arena, stream, 0);
    exchange->AwaitVerdict();
    exchange->Drain(0, stream);
  }
  const double seconds = timer.Seconds() / steps;
  const Timer votes;
  for (int i = 0; i < 100; ++i) group.Barrier("barrier");
  if (group.rank() == 0)
    fmt::print("{} MB, {} ranks: {:.2f} ms a step, {:.2f} GB/s sent per rank; barrier {:.0f} us\n",
               megabytes, group.size(), seconds * 1e3,
               static_cast<double>(exchange->stats().bytes_sent) / (steps + 1) / seconds / 1e9,
               votes.Seconds() / 100 * 1e6);
}

void Run(Group& group, const std::string& check, const std::vector<int>& numbers) {
  const bool chosen = !numbers.empty() && numbers[0] == group.rank();
  if (check == "sums") {
    for (const char* scheme : {"allreduce", "server", "tree"}) CheckSums(group, scheme);
  } else if (check == "group") {
    CheckGroup(group);
  } else if (check == "agree") {
    group.Together("nothing", [] {});
    group.Together("a file", [&] {
      if (group.rank() == 1) throw Error("no such file");
    });
  } else if (check == "fail") {
    StepsUntilTheEnd(group, [&] {
      if (chosen) throw DataError("train_lmdb", 17, "the record is broken", "");
    });
  } else if (check == "die") {
    StepsUntilTheEnd(group, [&] {
      if (chosen) kill(getpid(), SIGKILL);
    });
  } else if (check == "leave") {  // without a word, and without an error for the launcher
    StepsUntilTheEnd(group, [&] {
      if (chosen) _exit(0);
    });
  } else if (check == "hang") {
    StepsUntilTheEnd(group, [&] {
      if (chosen) std::this_thread::sleep_for(std::chrono::seconds(20));
    });
  } else if (check == "stop") {
    StepsUntilTheEnd(group, [&] {
      if (chosen) kill(getpid(), SIGSTOP);
    });
  } else if (check == "time") {
    TimeSteps(group, numbers.at(0), numbers.at(1));
  } else {
    throw ConfigError(fmt::format("there is no check \"{}\"", check), "");
  }
}

int Main(int argc, char** argv) {
  std::unique_ptr<Group> group;
  CommTimeouts timeouts;
  if (const char* seconds = std::getenv("RANKS_CHECK_WAIT")) timeouts.wait = std::atof(seconds);
  if (const char* seconds = std::getenv("RANKS_CHECK_SILENCE"))
    timeouts.silence = std::atof(seconds);
  try {
    group = StartGroup(timeouts);
  } catch (const std::exception& error) {
    if (DetectLaunch().rank == 0) fmt::print(stderr, "rank 0 says: {}\n", error.what());
    return 1;
  }
  try {
    std::vector<int> numbers;
    for (int i = 2; i < argc; ++i) numbers.push_back(std::atoi(argv[i]));
    Run(*group, argc > 1 ? argv[1] : "", numbers);
    if (group->rank() == 0) fmt::print("ok {} on {} ranks\n", argv[1], group->size());
    return 0;
  } catch (const Reported&) {
    return 1;
  } catch (const std::exception& error) {
    try {
      End(*group, error);
    } catch (const Reported&) {
      return 1;
    }
  }
}

}  // namespace
}  // namespace carafe

int main(int argc, char** argv) { return carafe::Main(argc, argv); }
