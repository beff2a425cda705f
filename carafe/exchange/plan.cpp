#include "carafe/exchange/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/comm/comm_thread.h"

namespace carafe {
namespace {

constexpr size_t kCacheLine = 64;

std::string FirstDifference(std::string_view a, std::string_view b) {
  size_t begin = 0;
  size_t i = 0;
  for (; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i)
    if (a[i] == '\n') begin = i + 1;
  const auto line = [begin](std::string_view text) {
    return std::string(text.substr(begin, text.find('\n', begin) - begin));
  };
  return fmt::format("\"{}\" against \"{}\" of rank 0", line(b), line(a));
}

}  // namespace

std::vector<int> MergeForEarliestEnd(std::span<const double> ready, std::span<const int64_t> bytes,
                                     const SumCost& cost) {
  const size_t n = ready.size();
  std::vector<double> end(n + 1, 0);
  std::vector<size_t> from(n + 1, 0);
  for (size_t i = 1; i <= n; ++i) {
    double load = 0;
    for (size_t j = i; j-- > 0;) {
      load += static_cast<double>(bytes[j]);
      if (j < i - 1 && cost.per_byte * load > kLatenciesMerged * cost.latency) break;
      const double time = std::max(end[j], ready[i - 1]) + cost.latency + cost.per_byte * load;
      if (j == i - 1 || time < end[i]) {  // the smaller of two that are as good
        end[i] = time;
        from[i] = j;
      }
    }
  }
  std::vector<int> sizes;
  for (size_t i = n; i > 0; i = from[i]) sizes.push_back(static_cast<int>(i - from[i]));
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

template <typename T>
std::vector<int> ArenaOrder(std::span<const ParamInfo<T>> params) {
  std::vector<int> order(params.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {  // empty ones before their place
    return std::pair(params[a].arena_offset, params[a].count) <
           std::pair(params[b].arena_offset, params[b].count);
  });
  return order;
}

template <typename T>
Plan MakePlan(std::span<const ParamInfo<T>> params, size_t bucket_bytes,
              std::span<const int> sizes) {
  const std::vector<int> order = ArenaOrder(params);
  std::vector<bool> cut(params.size() + 1);  // by place in the order: a bucket begins here
  for (size_t at = 0; int size : sizes) {
    cut[std::min(at, params.size())] = true;
    at += static_cast<size_t>(size);
  }
  Plan plan;
  plan.bucket_of.resize(params.size());
  int64_t begin = 0;  // of the open bucket, in the arena
  const ParamInfo<T>* last = nullptr;
  for (size_t at = 0; at < order.size(); ++at) {
    const int p = order[at];
    const ParamInfo<T>& param = params[p];
    const int64_t gap = last ? param.arena_offset - (last->arena_offset + last->count) : 0;
    Ensure(gap >= 0 && param.count >= 0, "two gradients overlap in the arena");
    const int64_t end = param.arena_offset + param.count;
    const bool neighbour =
        last && param.gradient - last->gradient == param.arena_offset - last->arena_offset &&
        static_cast<size_t>(gap) * sizeof(T) < kCacheLine && param.codec == last->codec &&
        param.memory == last->memory && param.factors.rows == 0 && last->factors.rows == 0;
    const bool fits =
        sizes.empty() ? static_cast<size_t>(end - begin) * sizeof(T) <= bucket_bytes : !cut[at];
    if (!neighbour || !fits) {
      plan.buckets.emplace_back();
      begin = param.arena_offset;
    }
    Bucket& bucket = plan.buckets.back();
    bucket.params.push_back(p);
    bucket.count = end - begin;
    plan.bucket_of[p] = static_cast<int>(plan.buckets.size()) - 1;
    last = &param;
  }
  plan.text = fmt::format("{} parameters of {} bytes an element\n", params.size(), sizeof(T));
  for (const Bucket& bucket : plan.buckets) {
    plan.text += fmt::format("{}:", bucket.count);
    for (int p : bucket.params)
      plan.text += fmt::format(" {}({}{}{})", params[p].name, params[p].count,
                               params[p].codec ? " as " + params[p].codec->name() : "",
                               params[p].factors.rows > 0 ? " by factors" : "");
    plan.text += '\n';
  }
  return plan;
}

template std::vector<int> ArenaOrder(std::span<const ParamInfo<float>>);
template std::vector<int> ArenaOrder(std::span<const ParamInfo<double>>);
template Plan MakePlan<float>(std::span<const ParamInfo<float>>, size_t, std::span<const int>);
template Plan MakePlan<double>(std::span<const ParamInfo<double>>, size_t, std::span<const int>);

std::string SchemeText(const Group& group, const Scheme& scheme, const SchemeSettings& settings,
                       int workers) {
  const HostLayout hosts =  // as will be used
      settings.hosts.known() ? settings.hosts : HostLayout(group.thread()->hosts());
  return fmt::format(
      "exchange {}\nsum {}\nmessages {}\ntree_branches {}\nexchange_timeout {}\nworkers {}\n"
      "hosts of the ranks {}\n",
      scheme.name, settings.algorithm,
      settings.message_bytes == 0 ? "as measured"
                                  : fmt::format("of {} bytes", settings.message_bytes),
      settings.branches, settings.timeout < 0 ? "none" : fmt::format("{} s", settings.timeout),
      workers, hosts.text());
}

void ComparePlans(Group& group, const std::string& scheme, const Plan& plan) {
  const std::vector<std::string> texts =
      group.AllGather(scheme + plan.text, "the plans of the exchange");
  for (int r = 1; r < group.size(); ++r)
    if (texts[r] != texts[0])
      throw ConfigError(fmt::format("rank {} on {} planned a different exchange: {}", r,
                                    group.host(r), FirstDifference(texts[0], texts[r])),
                        "all ranks must read the same net and be given the same settings");
}

}  // namespace carafe
