#include "carafe/core/tree_sum.h"

#include <gtest/gtest.h>

#include <vector>

namespace carafe {
namespace {

// Values whose float sums depend on the order.
float Part(int worker, int64_t i) {
  return 1.0f / static_cast<float>(1 + (worker * 7919 + i * 104729) % 1000);
}

template <typename Expect>
void ExpectTree(int workers, const Expect& expect) {
  for (int64_t count : {0, 1, 511, 512, 513, 2000}) {
    std::vector<std::vector<float>> values(workers, std::vector<float>(count));
    std::vector<const float*> parts;
    for (int w = 0; w < workers; ++w) {
      for (int64_t i = 0; i < count; ++i) values[w][i] = Part(w, i);
      parts.push_back(values[w].data());
    }
    for (int w = 0; w < workers; ++w) {  // in place of each part, one after the other
      std::vector<float> own = values[w];
      std::vector<const float*> in_place = parts;
      in_place[w] = own.data();
      TreeSum<float>(in_place, count, own.data());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(own[i], expect([i](int v) { return Part(v, i); })) << workers << " " << i;
    }
  }
}

TEST(TreeSum, AddsInTheBalancedTreeOverTheWorkerIndex) {
  ExpectTree(1, [](auto p) { return p(0); });
  ExpectTree(2, [](auto p) { return p(0) + p(1); });
  ExpectTree(3, [](auto p) { return (p(0) + p(1)) + p(2); });
  ExpectTree(4, [](auto p) { return (p(0) + p(1)) + (p(2) + p(3)); });
  ExpectTree(5, [](auto p) { return ((p(0) + p(1)) + (p(2) + p(3))) + p(4); });
  ExpectTree(6, [](auto p) { return ((p(0) + p(1)) + (p(2) + p(3))) + (p(4) + p(5)); });
  ExpectTree(7, [](auto p) { return ((p(0) + p(1)) + (p(2) + p(3))) + ((p(4) + p(5)) + p(6)); });
  ExpectTree(
      8, [](auto p) { return ((p(0) + p(1)) + (p(2) + p(3))) + ((p(4) + p(5)) + (p(6) + p(7))); });
}

TEST(TreeSum, OfTreesAddsHostByHost) {
  for (int64_t count : {0, 1, 512, 1300}) {
    std::vector<std::vector<float>> values(6, std::vector<float>(static_cast<size_t>(count)));
    std::vector<const float*> parts;
    for (int w = 0; w < 6; ++w) {
      for (int64_t i = 0; i < count; ++i) values[w][i] = Part(w, i);
      parts.push_back(values[w].data());
    }
    std::vector<float> sum = values[1];  // in place of a part
    parts[1] = sum.data();
    TreeSumOfTrees<float>(parts, std::vector<int>{3, 1, 2}, count, sum.data());
    for (int64_t i = 0; i < count; ++i) {
      const auto p = [i](int w) { return Part(w, i); };
      ASSERT_EQ(sum[i], (((p(0) + p(1)) + p(2)) + p(3)) + (p(4) + p(5))) << i;
    }
  }
}

}  // namespace
}  // namespace carafe
