#include "tests/support/sim_cluster.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "carafe/base/error.h"
#include "carafe/comm/tags.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {

SimCluster::SimCluster(const Setup& setup, SimNetwork& network)
    : setup_(setup),
      scheme_(FindScheme(setup.scheme)),
      network_(network),
      workers_(static_cast<size_t>(setup.ranks)) {
  const bool with_timeout = setup.settings.timeout >= 0;
  for (int r = 0; r < setup.ranks; ++r) {
    Worker& w = worker(r);
    std::vector<BucketMemory> memory;
    for (int b = 0; b < buckets(); ++b) {
      BucketMemory bucket{.count = count(b), .priority = buckets() - b, .codec = setup.codec};
      if (setup.gathers) {
        for (int part = 0; part < setup.ranks; ++part) bucket.parts.push_back(PartOf(part, b));
        bucket.count = PartBegin(setup.ranks, b);
      }
      if (setup.payload) {
        w.gradients.emplace_back(bucket.count);
        w.values.emplace_back(count(b));
        bucket.gradient = w.gradients.back().data();
        bucket.value = w.values.back().data();
      }
      memory.push_back(bucket);
    }
    w.ready.resize(static_cast<size_t>(buckets()), 0);
    w.complete.resize(static_cast<size_t>(buckets()), 0);
    w.engine = std::make_unique<Engine>(
        r, setup.ranks, ElementsOf<float>(),
        TransfersOf(scheme_, setup.settings, r, setup.ranks, ElementsOf<float>(), memory),
        ChannelTags{kExchangeTag, kExchangePayloadTag});
    w.votes = std::make_unique<VoteReduction>(r, setup.ranks, with_timeout);
  }
  for (int r = 0; r < setup.ranks; ++r) Backward(r, 0);
}

bool SimCluster::complete() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [&](const Worker& w) { return w.step == setup_.steps; });
}

int SimCluster::failures() const {
  return static_cast<int>(std::count_if(workers_.begin(), workers_.end(),
                                        [](const Worker& w) { return w.error.has_value(); }));
}

std::vector<int> SimCluster::WaitsFor(int r) const {
  std::vector<int> ranks = worker(r).engine->WaitsFor();
  return ranks.empty() ? worker(r).votes->WaitsFor() : ranks;
}

std::vector<int> SimCluster::Unaware() const {
  const auto ended = [&](int r) { return network_.dead(r) || error(r).has_value(); };
  std::vector<int> unaware;
  for (int r = 0; r < setup_.ranks; ++r) {
    if (network_.dead(r) || finished(r)) continue;
    if (error(r)) {
      if (error(r)->find("rank ") == std::string::npos) unaware.push_back(r);
      continue;
    }
    std::set<int> seen = {r};  // along the chains of who waits for whom
    std::vector<int> waiting = {r};
    bool known = false;
    while (!waiting.empty() && !known) {
      const int here = waiting.back();
      waiting.pop_back();
      for (int there : WaitsFor(here)) {
        known |= ended(there);
        if (seen.insert(there).second) waiting.push_back(there);
      }
    }
    if (!known) unaware.push_back(r);
  }
  return unaware;
}

int64_t SimCluster::PartBegin(int rank, int bucket) const {
  int64_t begin = 0;
  for (int r = 0; r < rank; ++r) begin += PartOf(r, bucket);
  return begin;
}

bool SimCluster::PartsAreRight(int r, int bucket) const {
  const float* element = worker(r).gradients[static_cast<size_t>(bucket)].data();
  for (int part = 0; part < setup_.ranks; ++part)
    for (int64_t i = 0; i < PartOf(part, bucket); ++i)
      if (*element++ != Gradient(part, worker(r).step, bucket, i)) return false;
  return true;
}

float SimCluster::Gradient(int rank, int step, int bucket, int64_t i) {
  return OrderSensitive<float>(rank, step * 5 + bucket * 17 + i);
}

StepVotes SimCluster::Votes(int rank, int step) {
  return {.loss = OrderSensitive<double>(rank, step), .weight = 1, .stop = rank == 1 ? 1.0 : 0.0};
}

const std::vector<float>& SimCluster::Sum(int step, int bucket) {
  std::vector<float>& sum = sums_[{step, bucket}];
  if (sum.empty())
    for (int64_t i = 0; i < count(bucket); ++i)
      sum.push_back(LayoutByHand<float>(setup_.settings.hosts, setup_.ranks,
                                        [&](int part) { return Gradient(part, step, bucket, i); }));
  return sum;
}

const std::vector<float>& SimCluster::ValuesAfter(int step, int bucket) {
  std::vector<float>& values = values_[{step, bucket}];
  if (!values.empty()) return values;
  values.resize(static_cast<size_t>(count(bucket)));
  if (step > 0) values = ValuesAfter(step - 1, bucket);
  const std::vector<float>& sum = Sum(step, bucket);
  for (size_t i = 0; i < values.size(); ++i) values[i] -= sum[i];
  return values;
}

const StepVotes& SimCluster::Verdict(int step) {
  const auto [verdict, is_new] = verdicts_.try_emplace(step);
  if (is_new)
    verdict->second = {
        .loss = TreeByHand<double>(0, setup_.ranks, [&](int r) { return Votes(r, step).loss; }),
        .weight = static_cast<double>(setup_.ranks),
        .stop = setup_.ranks > 1 ? 1.0 : 0.0};
  return verdict->second;
}

void SimCluster::Expect(bool right, const char* what, int rank, int step, int bucket) {
  if (right) return;
  ++wrong_;
  ADD_FAILURE() << fmt::format("wrong {} on rank {}, step {}, bucket {}, {}", what, rank, step,
                               bucket, setup_.scheme);
}

void SimCluster::Backward(int r, int bucket) {
  if (bucket == buckets()) return Vote(r);
  network_.At(network_.now() + setup_.backward, r, [this, r, bucket] {
    Worker& w = worker(r);
    const int64_t begin = setup_.gathers ? PartBegin(r, bucket) : 0;
    if (setup_.payload)
      for (int64_t i = 0; i < (setup_.gathers ? PartOf(r, bucket) : count(bucket)); ++i)
        w.gradients[static_cast<size_t>(bucket)][static_cast<size_t>(begin + i)] =
            Gradient(r, w.step, bucket, i);
    w.engine->OnReady(bucket);
    if (!scheme_.UpdatesOn(r)) w.engine->OnReady(buckets() + bucket);
    if (r == 0 && setup_.settings.timeout >= 0)
      network_.At(network_.now() + setup_.settings.timeout, 0, [this, bucket, step = w.step] {
        if (worker(0).ready[static_cast<size_t>(bucket)] == step)
          worker(0).engine->OnTimeout(bucket);
      });
    Backward(r, bucket + 1);
  });
}

void SimCluster::Vote(int r) {
  worker(r).votes->OnVotes(Votes(r, worker(r).step));
  worker(r).voting = true;
}

void SimCluster::Forward(int r, int bucket) {
  Worker& w = worker(r);
  if (bucket < 0) {
    if (++w.step < setup_.steps) Backward(r, 0);
    return;
  }
  w.waits_for = bucket;
  if (w.ready[static_cast<size_t>(bucket)] > w.step) Pass(r);
}

// What the forward pass waited for is there.
void SimCluster::Pass(int r) {
  const int bucket = std::exchange(worker(r).waits_for, -1);
  network_.At(network_.now() + setup_.forward, r, [this, r, bucket] {
    if (r == 0 && first_forward_done < 0) first_forward_done = network_.now();
    Forward(r, bucket - 1);
  });
}

void SimCluster::Wake(int r) {
  Worker& w = worker(r);
  if (w.error) return;
  try {
    Transport& transport = network_.transport(r);
    for (bool moved = true; moved;) {
      moved = w.votes->Poll(transport);
      moved |= w.engine->Poll(transport);
      moved |= Serve(r);
    }
  } catch (const Error& error) {
    w.error = error.what();
  }
}

bool SimCluster::Serve(int r) {
  Worker& w = worker(r);
  bool moved = false;
  for (int transfer : w.engine->TakeComplete()) {
    moved = true;
    const int bucket = transfer % buckets();
    if (!scheme_.UpdatesOn(r)) {  // the gradient is sent, or the values are here
      if (++w.complete[static_cast<size_t>(bucket)] % 2 == 0) ValuesAreHere(r, bucket);
    } else if (transfer >= buckets()) {
      ValuesAreHere(r, bucket);
    } else {
      SumIsHere(r, bucket);
    }
  }
  StepVotes verdict;
  if (w.voting && w.votes->TakeComplete(&verdict)) {
    moved = true;
    w.voting = false;
    const StepVotes& expected = Verdict(w.step);
    Expect(verdict.loss == expected.loss && verdict.weight == expected.weight &&
               verdict.stop == expected.stop && verdict.bad == 0,
           "verdict", r, w.step, -1);
    Forward(r, buckets() - 1);
  }
  return moved;
}

void SimCluster::SumIsHere(int r, int bucket) {
  Worker& w = worker(r);
  if (setup_.payload) {
    const std::vector<float>& sum = Sum(w.step, bucket);
    std::vector<float>& values = w.values[static_cast<size_t>(bucket)];
    if (setup_.gathers) {
      Expect(PartsAreRight(r, bucket), "parts", r, w.step, bucket);
    } else {
      Expect(w.gradients[static_cast<size_t>(bucket)] == sum, "sum", r, w.step, bucket);
    }
    for (size_t i = 0; i < sum.size(); ++i) values[i] -= sum[i];
  }
  if (scheme_.root_updates) return w.engine->OnReady(buckets() + bucket);
  ValuesAreHere(r, bucket);
}

void SimCluster::ValuesAreHere(int r, int bucket) {
  Worker& w = worker(r);
  if (setup_.payload)
    Expect(w.values[static_cast<size_t>(bucket)] == ValuesAfter(w.step, bucket), "values", r,
           w.step, bucket);
  if (r == 0 && w.step == 0) last_value_there = network_.now();
  ++w.ready[static_cast<size_t>(bucket)];
  if (w.waits_for == bucket) Pass(r);
}

}  // namespace carafe
