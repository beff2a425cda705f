// The exchange "allreduce": sums on all ranks, each of which makes the same update. Nothing passes
// through one place: 2 n (P-1)/P bytes per rank.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/index.h"
#include "carafe/exchange/register_scheme.h"

namespace carafe {
namespace {

// Up to this many ranks, parts go straight to the owners of segments: two message times. Beyond,
// the 2 (P-1) messages of a chunk cost more than the 2 log P steps of halving and doubling.
constexpr int kMostOwners = 16;
// Up to this many bytes every rank sends everything to every other: one message time.
constexpr int64_t kTinyBytes = 2048;
constexpr int kFewRanks = 8;
// Sums whose segments are shorter than kShortPart use halving and doubling: log P messages instead
// of P-1, each way. Sums of at most kShortSum bytes use doubling only: log P messages in all, but
// log P times the bytes.
constexpr int64_t kShortPart = 128 << 10;
constexpr int64_t kShortSum = 32 << 10;
// A bucket is cut in chunks, so that sums are made while parts are still being sent, but not so
// finely that the cost per message counts.
constexpr int64_t kChunks = 4;
constexpr int64_t kLeastMessage = 128 << 10;

// kHosts: SumByHosts, with owners between the hosts; kHostsHalving: with halving.
enum class Large { kOwners, kHalving, kHosts, kHostsHalving, kSwap };

Large LargeSum(const SchemeSettings& settings, int size) {
  const bool any = settings.algorithm == "auto";
  const HostLayout& hosts = settings.hosts;
  if (any && hosts.saves_bytes() && hosts.hosts() <= kMostOwners) return Large::kHosts;
  // Two ranks that swap everything send no more bytes, in half the messages. In shared memory,
  // where nothing is sent, each would read twice as much.
  if (any && size == 2 && !hosts.one_host()) return Large::kSwap;
  if (any ? size <= kMostOwners : settings.algorithm != "halving") return Large::kOwners;
  // Halving over all ranks stays inside a host of 2^k ranks as long as it can, by itself.
  return hosts.is_rank_tree() ? Large::kHalving : Large::kHostsHalving;
}

// Chunks whose longest message is one part in `parts` of a chunk.
template <typename F>
std::vector<Program> CutInParts(const SchemeSettings& settings, int rank, int size, int64_t count,
                                int64_t bytes, int64_t parts, const F& program) {
  const auto most = static_cast<int64_t>(settings.message_bytes);
  const int64_t message = std::clamp(bytes / kChunks / parts, std::min(kLeastMessage, most), most);
  const int64_t width = count > 0 ? bytes / count : 1;
  return Cut(count, std::max<int64_t>(message * parts / width, 1),
             [&](int64_t begin, int64_t end) { return program(rank, size, begin, end); });
}

// The longest message of SumByHosts is one part in so many: a segment of the smallest host that has
// several ranks, or of a host's whole with two hosts.
int LargestShare(const HostLayout& hosts) {
  int share = hosts.most();
  for (const std::vector<int>& host : hosts.by_host())
    if (host.size() > 1) share = std::min(share, Count(host));
  return share;
}

std::vector<Program> Sum(const SchemeSettings& settings, int rank, int size, int64_t count,
                         int64_t bytes) {
  const auto cut = [&](int64_t parts, const auto& program) {
    return CutInParts(settings, rank, size, count, bytes, parts, program);
  };
  const auto in_order = [&](const auto& program) {
    return [&](int r, int p, int64_t begin, int64_t end) {
      return InOrderOf(settings.hosts, program(r, p, begin, end));
    };
  };
  const auto by_hosts = [&](BetweenHosts between) {
    return [&settings, between](int r, int p, int64_t begin, int64_t end) {
      return SumByHosts(r, p, settings.hosts, between, begin, end);
    };
  };
  if (settings.algorithm == "auto" && bytes <= kTinyBytes && size <= kFewRanks)
    return cut(1, in_order(SumByAll));
  const Large large = LargeSum(settings, size);
  if (settings.algorithm == "auto" && large == Large::kOwners && !settings.hosts.one_host() &&
      bytes < kShortPart * size)
    return bytes <= kShortSum ? cut(1, SumByDoubling) : cut(2, SumByHalving);
  switch (large) {
    case Large::kSwap:
      return cut(1, SumByDoubling);
    case Large::kHosts:
      return cut(LargestShare(settings.hosts), by_hosts(BetweenHosts::kOwners));
    case Large::kHostsHalving:
      return cut(LargestShare(settings.hosts), by_hosts(BetweenHosts::kHalving));
    case Large::kHalving:
      return cut(2, SumByHalving);
    case Large::kOwners:
      break;
  }
  return cut(size, in_order(SumByOwners));
}

// Every part must be encoded once, at its source (a rank, or a host), so parts go straight to the
// owners of segments.
std::vector<Program> EncodedSum(const SchemeSettings& settings, int rank, int size, int64_t count,
                                int64_t bytes) {
  const HostLayout& hosts = settings.hosts;
  if (hosts.saves_bytes())
    return CutInParts(settings, rank, size, count, bytes, LargestShare(hosts),
                      [&](int r, int p, int64_t begin, int64_t end) {
                        return PlainInsideHosts(
                            hosts, r, SumByHosts(r, p, hosts, BetweenHosts::kOwners, begin, end));
                      });
  return CutInParts(settings, rank, size, count, bytes, size, SumByOwners);
}

std::string Describe(const SchemeSettings& settings, int size) {
  switch (LargeSum(settings, size)) {
    case Large::kHosts:
    case Large::kHostsHalving:
      return fmt::format("sums inside {} first, then between {} hosts", settings.hosts.Describe(),
                         settings.hosts.hosts());
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
     .encoded_sum = EncodedSum,
     .describe = Describe}};

}  // namespace
}  // namespace carafe
