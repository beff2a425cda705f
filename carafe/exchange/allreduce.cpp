// The exchange "allreduce": sums on all ranks, each of which makes the same update. Nothing passes
// through one place: 2 n (P-1)/P bytes per rank.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/exchange/register_scheme.h"

namespace carafe {
namespace {

// Up to this many ranks parts go straight to their owners: two message times. Beyond, the 2 (P-1)
// messages of a chunk cost more than the 2 log P steps of halving and doubling.
constexpr int kMostOwners = 16;
// Up to this many bytes everyone sends all to everyone: one message time.
constexpr int64_t kTinyBytes = 2048;
constexpr int kFewRanks = 8;
// Parts shorter than this do not go to their owners one by one, but halved and doubled: lg P
// messages instead of P-1, each way. What is shorter than the other as a whole is doubled only: lg
// P messages in all, but lg P times the bytes.
constexpr int64_t kShortPart = 128 << 10;
constexpr int64_t kShortSum = 32 << 10;
// A bucket is cut, so that sums are made while parts still travel, but not so fine that what a
// message costs beside its bytes counts.
constexpr int64_t kPieces = 4;
constexpr int64_t kLeastMessage = 128 << 10;

enum class Large { kOwners, kHalving, kHosts, kSwap };

Large LargeSum(const SchemeSettings& settings, int size) {
  const bool any = settings.algorithm == "auto";
  const int hosts = size / std::max(settings.local, 1);
  // Halving stays inside a host of 2^k ranks as long as it can, by itself.
  if (any && settings.local > 1 && hosts > 1 && hosts <= kMostOwners) return Large::kHosts;
  // Two send no more bytes if both get all, and half as often. In shared memory, where nothing
  // is sent, each would read twice as much.
  if (any && size == 2 && settings.local <= 1) return Large::kSwap;
  return (any ? size > kMostOwners : settings.algorithm == "halving") ? Large::kHalving
                                                                      : Large::kOwners;
}

std::vector<Program> Sum(const SchemeSettings& settings, int rank, int size, int64_t count,
                         int64_t bytes) {
  const auto cut = [&](int64_t first_message_of_chunk, const auto& program) {
    const auto most = static_cast<int64_t>(settings.message_bytes);
    const int64_t message =
        std::clamp(bytes / kPieces / first_message_of_chunk, std::min(kLeastMessage, most), most);
    const int64_t width = count > 0 ? bytes / count : 1;
    return Cut(count, std::max<int64_t>(message * first_message_of_chunk / width, 1),
               [&](int64_t begin, int64_t end) { return program(rank, size, begin, end); });
  };
  if (settings.algorithm == "auto" && bytes <= kTinyBytes && size <= kFewRanks)
    return cut(1, SumByAll);
  const Large large = LargeSum(settings, size);
  if (settings.algorithm == "auto" && large == Large::kOwners && settings.local <= 1 &&
      bytes < kShortPart * size)
    return bytes <= kShortSum ? cut(1, SumByDoubling) : cut(2, SumByHalving);
  switch (large) {
    case Large::kSwap:
      return cut(1, SumByDoubling);
    case Large::kHosts:
      return cut(settings.local, [&](int r, int p, int64_t begin, int64_t end) {
        return SumByHosts(r, p, settings.local, begin, end);
      });
    case Large::kHalving:
      return cut(2, SumByHalving);
    case Large::kOwners:
      break;
  }
  return cut(size, SumByOwners);
}

std::string Describe(const SchemeSettings& settings, int size) {
  switch (LargeSum(settings, size)) {
    case Large::kHosts:
      return fmt::format("sums inside each host of {} ranks first, then between {} hosts",
                         settings.local, size / settings.local);
    case Large::kHalving:
      return "sums by halving and doubling";
    case Large::kSwap:
      return "both send all to each other";
    case Large::kOwners:
      break;
  }
  return "parts straight to their owners, sums to all";
}

const RegisterScheme kRegistered{
    {.name = "allreduce",
     .summary = "Synchronous sum on all ranks; hidden behind Backward and the next Forward.",
     .sum = Sum,
     .describe = Describe}};

}  // namespace
}  // namespace carafe
