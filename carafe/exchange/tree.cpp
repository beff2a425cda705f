// The exchange "tree", after CaffeGPI: gradients climb a binomial tree, rank 0 updates, values come
// down a tree of --tree_branches; bucket by bucket, in small writes with notification, each with
// the number of its step instead of barriers between steps.
#include <fmt/format.h>

#include "carafe/exchange/register_scheme.h"

namespace carafe {
namespace {

std::vector<Program> Sum(const SchemeSettings& settings, int rank, int size, int64_t count,
                         int64_t bytes) {
  return CutByMessage(settings, count, bytes, [&](int64_t begin, int64_t end) {
    return SumUpTree(rank, size, settings.hosts, begin, end);
  });
}

std::vector<Program> Spread(const SchemeSettings& settings, int rank, int size, int64_t count,
                            int64_t bytes) {
  return CutByMessage(settings, count, bytes, [&](int64_t begin, int64_t end) {
    return SpreadDownTree(rank, size, settings.hosts, settings.branches, begin, end);
  });
}

const RegisterScheme kRegistered{
    {.name = "tree",
     .summary = "Gradients climb a binomial tree, rank 0 updates, values come down a tree.",
     .root_updates = true,
     .sum = Sum,
     .spread = Spread,
     .encoded_sum = GatherEncoded,
     .describe = [](const SchemeSettings& settings, int) {
       return fmt::format("up a binomial tree, down a tree of {}{}", settings.branches,
                          settings.hosts.saves_bytes() ? " that enters every host once" : "");
     }}};

}  // namespace
}  // namespace carafe
