// The exchange "server", after caffe-parallel: rank 0 takes all gradients, updates, and returns the
// values. (P-1) n bytes each way through one place: for comparison, and for very small nets. With a
// timeout, after Caffe-MPI of 2016, those that come too late count in the next step.
#include <fmt/format.h>

#include <string>

#include "carafe/exchange/register_scheme.h"

namespace carafe {
namespace {

const RegisterScheme kRegistered{
    {.name = "server",
     .summary = "Rank 0 takes all gradients, updates and returns the values.",
     .root_updates = true,
     .may_leave_out = true,
     .sum =
         [](const SchemeSettings& settings, int rank, int size, int64_t count, int64_t bytes) {
           return CutByMessage(settings, count, bytes, [=, &settings](int64_t begin, int64_t end) {
             if (settings.timeout >= 0) return GatherInTime(rank, size, begin, end);
             return GatherAtRoot(rank, size, settings.local, begin, end);
           });
         },
     .spread =
         [](const SchemeSettings& settings, int rank, int size, int64_t count, int64_t bytes) {
           return CutByMessage(settings, count, bytes, [=, &settings](int64_t begin, int64_t end) {
             return SpreadFromRoot(rank, size, settings.local, begin, end);
           });
         },
     .describe =
         [](const SchemeSettings& settings, int) {
           if (settings.timeout >= 0)
             return fmt::format("all to rank 0, which waits {:g} s and sends values to all",
                                settings.timeout);
           return std::string(settings.local > 1
                                  ? "the sum of each host to rank 0, values to each host"
                                  : "all to rank 0, values to all");
         }}};

}  // namespace
}  // namespace carafe
