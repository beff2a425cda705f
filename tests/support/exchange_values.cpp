#include "tests/support/exchange_values.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/support/param_arena.h"
#include "tests/support/tree_by_hand.h"

namespace carafe {

std::vector<float> ValuesAfter(const std::string& scheme, int ranks, int workers, bool overlap,
                               bool needs_all, const SchemeSettings& settings, int delay_seed,
                               const RankLink& link) {
  const std::vector<int64_t> counts = {500, 0, 1, 25, 2011, 7};
  constexpr int kSteps = 3;
  std::vector<std::vector<float>> values(static_cast<size_t>(ranks));
  const auto rank_main = [&](Group& group) {
    std::vector<Arena<float>> arenas;
    for (int w = 0; w < workers; ++w) arenas.emplace_back(counts);
    std::vector<ParamInfo<float>> params = arenas[0].params;
    std::vector<float>& mine = values[static_cast<size_t>(group.rank())];
    mine.resize(arenas[0].memory.size());
    for (size_t p = 0; p < params.size(); ++p) {
      params[p].value = mine.data() + params[p].arena_offset;
      for (int w = 1; w < workers; ++w)
        params[p].other_gradients.push_back(arenas[static_cast<size_t>(w)].params[p].gradient);
    }
    const auto exchange =
        MakeExchange<float>(scheme, {.group = group,
                                     .params = params,
                                     .update =
                                         [&](int p, Stream&) {
                                           for (int64_t i = 0; i < params[p].count; ++i) {
                                             params[p].value[i] += params[p].gradient[i];
                                             params[p].gradient[i] = 0;
                                           }
                                         },
                                     .workers = workers,
                                     .update_needs_all = needs_all,
                                     .bucket_bytes = 600,
                                     .overlap = overlap,
                                     .scheme = settings});
    for (int step = 0; step < kSteps; ++step) {
      std::vector<std::thread> threads;
      for (int w = 0; w < workers; ++w)
        threads.emplace_back([&, w] {
          Stream stream;
          for (int p = 0; p < static_cast<int>(counts.size()); ++p)
            exchange->AwaitValue(w, p, stream);
          exchange->Drain(w, stream);
          if (w == 0) exchange->Vote({.weight = 1});
          const int worker = group.rank() * workers + w;
          std::mt19937 random(static_cast<unsigned>(delay_seed * 1000 + step * 100 + worker));
          for (int p = static_cast<int>(counts.size()); p-- > 0;) {
            if (delay_seed != 0 && random() % 3 == 0)
              std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
            const ParamInfo<float>& param = arenas[static_cast<size_t>(w)].params[p];
            for (int64_t i = 0; i < param.count; ++i)
              param.gradient[i] += OrderSensitive<float>(worker, step * 31 + p * 613 + i);
            exchange->GradientReady(w, p, stream);
          }
        });
      for (std::thread& thread : threads) thread.join();
      exchange->FinishStep();
      EXPECT_EQ(exchange->AwaitVerdict().weight, group.size());
    }
    Stream stream;
    exchange->Drain(0, stream);
  };
  RunRanks(ranks, rank_main, {}, link);
  for (const std::vector<float>& of_rank : values) EXPECT_EQ(of_rank, values[0]);
  return values[0];
}

}  // namespace carafe
