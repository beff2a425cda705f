// Ranks with the shards of a stale server on engines in virtual time, whose updates can be counted:
// every update of rank r adds 1 to the elements of r, so that a value says how many updates of
// which rank it holds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/sim_transport.h"
#include "carafe/exchange/delta_shards.h"
#include "carafe/exchange/shards.h"
#include "tests/support/param_arena.h"

namespace carafe {

struct SimStaleSetup {
  int ranks = 3;
  int staleness = 0;
  int steps = 10;
  ServerSettings server = {.update = ServerUpdate::kArrival, .combine = Combine::kSum};
  std::vector<int64_t> counts = {50, 1, 0, 333};
  size_t bucket_bytes = 256;
  int64_t message_bytes = 200;
  uint64_t seed = 1;
  double slow = 5;     // rank 0 takes so many times as long as the others
  bool random = true;  // steps take 1 to 8 times as long
  double step_seconds = 1e-4;
  double bytes_per_second = 0;                          // 0: no limit
  std::function<float(int rank, int param)> size = {};  // of an update instead of 1
};

class SimStaleServer {
 public:
  static constexpr float kStart = 3;  // of all values

  SimStaleServer(const SimStaleSetup& setup, SimNetwork& network)
      : setup_(setup),
        random_(setup.seed),
        network_(network),
        ranks_(static_cast<size_t>(setup.ranks)) {
    for (int r = 0; r < setup.ranks; ++r) {
      Rank& rank = At(ranks_, r);
      rank.arena = std::make_unique<Arena<float>>(setup.counts);
      for (ParamInfo<float>& param : rank.arena->params) {
        rank.values.emplace_back(static_cast<size_t>(param.count), kStart);
        param.value = rank.values.back().data();
      }
      MakeShards(r);
      rank.engine = std::make_unique<Engine>(r, setup.ranks, ElementsOf<float>(),
                                             rank.shards->transfers(), ChannelTags{100, 1000});
      if (setup.bytes_per_second > 0) rank.engine->Limit(setup.bytes_per_second);
      rank.complete.resize(rank.shards->transfers().size());
      rank.known.resize(rank.shards->buckets().size());
      rank.shards->Begin(TransfersOf(rank));
      network_.At(0, r, [] {});
    }
  }
  void Run() {
    network_.Run([this](int r) { Wake(r); });
  }
  bool finished(int r) const { return At(ranks_, r).step == setup_.steps; }
  bool complete() {
    for (Rank& rank : ranks_)
      for (int b = 0; b < Count(rank.known); ++b)
        if (Newest(rank, b) != setup_.steps) return false;
    return true;
  }
  const std::optional<std::string>& error(int r) const { return At(ranks_, r).error; }
  std::vector<int> WaitsFor(int r) const { return At(ranks_, r).engine->WaitsFor(); }
  int64_t largest_gap() const { return largest_gap_; }
  int step(int r) const { return At(ranks_, r).step; }  // announced
  int64_t early() const { return early_; }              // see CheckRead
  int64_t bytes_sent(int r) const { return At(ranks_, r).engine->bytes_sent(); }
  // Transfers in the order in which they became complete.
  const std::vector<int>& order(int r) const { return At(ranks_, r).order; }
  const ServerShards<float>& shards(int r) const { return *At(ranks_, r).shards; }

  // Every update of every rank is in the values of all ranks, once.
  void ExpectAllUpdatesOnce() {
    for (Rank& rank : ranks_) {
      ASSERT_EQ(rank.step, setup_.steps) << "did not finish";
      Read(rank, setup_.steps);
      for (const std::vector<float>& values : rank.values)
        for (const float value : values)
          ASSERT_EQ(value, kStart + static_cast<float>(setup_.steps));
    }
  }

 private:
  struct Rank {
    std::unique_ptr<Arena<float>> arena;
    std::vector<std::vector<float>> values;  // by parameter, as they were read
    std::unique_ptr<ServerShards<float>> shards;
    std::unique_ptr<Engine> engine;
    std::vector<int64_t> complete;  // steps, by transfer
    std::vector<int64_t> known;     // by bucket: the newest clock at the last look
    std::vector<int> order;
    int step = 0;  // announced
    double wake_at = -1;
    bool computing = false;
    bool moved = false;
    std::optional<std::string> error;
  };
  static ShardTransfers TransfersOf(Rank& rank) {
    return {.steps = [&rank](int transfer) { return At(rank.complete, transfer); },
            .start =
                [&rank](int transfer) {
                  rank.engine->OnReady(transfer);
                  rank.moved = true;
                },
            .listen =
                [&rank](int transfer) {
                  rank.engine->Listen(transfer);
                  rank.moved = true;
                }};
  }
  // Whose updates an element counts.
  int RankOf(int param, int64_t i) const {
    return static_cast<int>((param * 7 + i) % setup_.ranks);
  }

  void MakeShards(int r) {
    Rank& rank = At(ranks_, r);
    const Plan plan = MakePlan<float>(rank.arena->params, setup_.bucket_bytes);
    const ShardSettings settings{.rank = r,
                                 .size = setup_.ranks,
                                 .staleness = setup_.staleness,
                                 .message_bytes = setup_.message_bytes,
                                 .server = setup_.server};
    std::vector<ShardedBucket> buckets =
        LayOutShards<float>(plan, rank.arena->params, setup_.ranks, ShardCut::kElements);
    const auto add = [](const ShardUpdate<float>& update, float share) {
      for (int64_t i = 0; i < update.shard.count; ++i) {
        update.value[i] += update.gradient[i] * share;
        update.gradient[i] = 0;
      }
    };
    if (setup_.server.update == ServerUpdate::kClock) {
      rank.shards = std::make_unique<Shards<float>>(
          settings, std::move(buckets), rank.arena->params,
          [add](const ShardUpdate<float>& update) { add(update, 1); });
    } else {
      const float share = 1 / static_cast<float>(setup_.ranks);
      rank.shards = std::make_unique<DeltaShards<float>>(
          settings, std::move(buckets), rank.arena->params,
          [add, share](const ShardUpdate<float>& update, Stream&) { add(update, share); });
    }
  }
  static int64_t Newest(Rank& rank, int b) {
    return At(rank.known, b) = rank.shards->ValueClock(b, At(rank.known, b), TransfersOf(rank));
  }
  static void Read(Rank& rank, int step) {
    for (int b = 0; b < Count(rank.known); ++b)
      for (const PlacedParam& placed : At(rank.shards->buckets(), b).params)
        rank.shards->CopyValues(Newest(rank, b), step, b, placed,
                                At(rank.values, placed.param).data());
  }

  void Wake(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.error || network_.dead(r)) return;
    try {
      do {
        rank.moved = rank.engine->Poll(network_.transport(r), network_.now());
        for (const int transfer : rank.engine->TakeComplete()) {
          ++At(rank.complete, transfer);
          rank.order.push_back(transfer);
          rank.moved = true;
        }
        rank.shards->Advance(TransfersOf(rank));
        rank.moved |= TryStep(r);
      } while (rank.moved);
    } catch (const Error& error) {
      rank.error = error.what();
    }
    const double next = rank.engine->NextSend();
    if (next < 0 || next == rank.wake_at) return;
    rank.wake_at = next;
    network_.At(next, r, [] {});
  }
  // Reads and computes, if every value is new enough.
  bool TryStep(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.computing || rank.step == setup_.steps) return false;
    for (int b = 0; b < Count(rank.known); ++b)
      if (Newest(rank, b) < rank.step - setup_.staleness) return false;
    if (rank.step == 0) {
      for (int b = 0; b < Count(rank.known); ++b)
        for (const PlacedParam& placed : At(rank.shards->buckets(), b).params)
          rank.shards->SetValues(0, b, placed, At(rank.values, placed.param).data());
    } else {
      Read(rank, rank.step);
    }
    if (!setup_.size) CheckRead(r);
    for (const Rank& other : ranks_)
      largest_gap_ = std::max<int64_t>(largest_gap_, rank.step - other.step);
    rank.computing = true;
    const double factor = setup_.random ? static_cast<double>(1 + random_() % 8) : 1;
    const double seconds = setup_.step_seconds * (r == 0 ? setup_.slow : 1) * factor;
    network_.At(network_.now() + seconds, r, [this, r] { Announce(r); });
    return true;
  }
  // A value holds the updates of all ranks that its clock says, none that were not made, and of
  // this rank all that it made.
  void CheckRead(int r) {
    Rank& rank = At(ranks_, r);
    const bool arrival = setup_.server.update == ServerUpdate::kArrival;
    for (int b = 0; b < Count(rank.known); ++b) {
      const int64_t clock = Newest(rank, b);
      for (const PlacedParam& placed : At(rank.shards->buckets(), b).params)
        for (int64_t i = 0; i < placed.count; ++i) {
          const int of = RankOf(placed.param, i);
          const auto held = static_cast<int64_t>(At(At(rank.values, placed.param), i) - kStart);
          ASSERT_GE(held, arrival && of == r ? rank.step : clock) << "lost, or too old";
          ASSERT_LE(held, arrival ? At(ranks_, of).step : clock) << "counted twice";
          if (of != r) early_ += held > clock;
        }
    }
  }
  void Announce(int r) {
    Rank& rank = At(ranks_, r);
    if (rank.error || network_.dead(r)) return;
    for (int b = 0; b < Count(rank.known); ++b) {
      const std::vector<PlacedParam>& placed = At(rank.shards->buckets(), b).params;
      for (const PlacedParam& p : placed)
        for (int64_t i = 0; i < p.count; ++i)
          At(rank.arena->params, p.param).gradient[i] = setup_.size ? setup_.size(r, p.param)
                                                        : RankOf(p.param, i) == r ? 1.f
                                                                                  : 0.f;
      rank.shards->Take({.clock = rank.step,
                         .read = At(rank.known, b),
                         .parts = {At(rank.arena->params, placed.front().param).gradient}},
                        b, stream_);
      for (const int transfer : rank.shards->Expected(rank.step, b)) rank.engine->Expect(transfer);
      rank.engine->OnReady(rank.shards->SumOf(rank.step, b));
    }
    ++rank.step;
    rank.computing = false;
  }

  const SimStaleSetup setup_;
  std::mt19937_64 random_;
  SimNetwork& network_;
  std::vector<Rank> ranks_;
  Stream stream_;
  int64_t largest_gap_ = 0;  // steps that a rank was ahead of another when it began one
  int64_t early_ = 0;        // updates read that were later than the clock of the value
};

}  // namespace carafe
