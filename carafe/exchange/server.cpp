// The exchange "server", after caffe-parallel: rank 0 takes all gradients, updates, and returns the
// values. (P-1) n bytes each way through one place: for comparison, and for very small nets. With a
// timeout, after Caffe-MPI of 2016, gradients that arrive too late count in the next step.
#include <fmt/format.h>

#include <string>

#include "carafe/exchange/register_scheme.h"

namespace carafe {
namespace {

const RegisterScheme kRegistered{
    {.name = "server",
     .summary = "Rank 0 takes all gradients, updates and returns the values.",
     .root_updates = true,
     .may_skip_late = true,
     .sum =
         [](const SchemeSettings& settings, int rank, int size, int64_t count, int64_t bytes) {
           return CutByMessage(settings, count, bytes, [=, &settings](int64_t begin, int64_t end) {
             if (settings.timeout >= 0)
               return InOrderOf(settings.hosts, GatherWithTimeout(rank, size, begin, end));
             return GatherAtRoot(rank, size, settings.hosts, begin, end);
           });
         },
     .spread =
         [](const SchemeSettings& settings, int rank, int size, int64_t count, int64_t bytes) {
           return CutByMessage(settings, count, bytes, [=, &settings](int64_t begin, int64_t end) {
             return SpreadFromRoot(rank, size, settings.hosts, begin, end);
           });
         },
     .encoded_sum = GatherEncoded,
     .describe =
         [](const SchemeSettings& settings, int) {
           if (settings.timeout >= 0)
             return fmt::format("all to rank 0, which waits {:g} s and sends values to all",
                                settings.timeout);
           return std::string(settings.hosts.saves_bytes()
                                  ? "the sum of each host to rank 0, values to each host"
                                  : "all to rank 0, values to all");
         }}};

}  // namespace
}  // namespace carafe
