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
    : setup_(setup), network_(network), workers_(static_cast<size_t>(setup.ranks)) {
  const bool in_time = setup.settings.timeout >= 0;
  for (int r = 0; r < setup.ranks; ++r) {
    Worker& w = worker(r);
    std::vector<BucketPlace<float>> places;
    for (int b = 0; b < buckets(); ++b) {
      BucketPlace<float> place{.count = count(b), .priority = buckets() - b};
      if (setup.payload) {
        w.gradients.emplace_back(count(b));
        w.values.emplace_back(count(b));
        place.gradient = w.gradients.back().data();
        place.value = w.values.back().data();
      }
      places.push_back(place);
    }
    w.ready.resize(static_cast<size_t>(buckets()), 0);
    w.agreement =
        std::make_unique<Agreement<float>>(FindScheme(setup.scheme), setup.settings, r, setup.ranks,
                                           places, ChannelTags{kExchangeTag, kExchangePayloadTag});
    w.ballot = std::make_unique<Ballot>(r, setup.ranks, in_time);
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

std::vector<int> SimCluster::Awaited(int r) const {
  std::vector<int> ranks = worker(r).agreement->Awaited();
  return ranks.empty() ? worker(r).ballot->Awaited() : ranks;
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
      for (int there : Awaited(here)) {
        known |= ended(there);
        if (seen.insert(there).second) waiting.push_back(there);
      }
    }
    if (!known) unaware.push_back(r);
  }
  return unaware;
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
      sum.push_back(TreeByHand<float>(0, setup_.ranks,
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
    if (setup_.payload)
      for (int64_t i = 0; i < count(bucket); ++i)
        w.gradients[static_cast<size_t>(bucket)][static_cast<size_t>(i)] =
            Gradient(r, w.step, bucket, i);
    w.agreement->OnGradients(bucket);
    if (r == 0 && setup_.settings.timeout >= 0)
      network_.At(network_.now() + setup_.settings.timeout, 0, [this, bucket, step = w.step] {
        if (worker(0).ready[static_cast<size_t>(bucket)] == step)
          worker(0).agreement->OnTimeUp(bucket);
      });
    Backward(r, bucket + 1);
  });
}

void SimCluster::Vote(int r) {
  worker(r).ballot->OnVotes(Votes(r, worker(r).step));
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
      moved = w.ballot->Poll(transport);
      moved |= w.agreement->Poll(transport);
      moved |= Serve(r);
    }
  } catch (const Error& error) {
    w.error = error.what();
  }
}

bool SimCluster::Serve(int r) {
  Worker& w = worker(r);
  bool moved = false;
  for (int b : w.agreement->TakeSums()) {
    moved = true;
    if (setup_.payload) {
      const std::vector<float>& sum = w.gradients[static_cast<size_t>(b)];
      std::vector<float>& values = w.values[static_cast<size_t>(b)];
      Expect(sum == Sum(w.step, b), "sum", r, w.step, b);
      for (size_t i = 0; i < sum.size(); ++i) values[i] -= sum[i];
    }
    w.agreement->OnUpdated(b);
  }
  for (int b : w.agreement->TakeValues()) {
    moved = true;
    if (setup_.payload)
      Expect(w.values[static_cast<size_t>(b)] == ValuesAfter(w.step, b), "values", r, w.step, b);
    if (r == 0 && w.step == 0) last_value_there = network_.now();
    ++w.ready[static_cast<size_t>(b)];
    if (w.waits_for == b) Pass(r);
  }
  StepVotes verdict;
  if (w.voting && w.ballot->TakeComplete(&verdict)) {
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

}  // namespace carafe
