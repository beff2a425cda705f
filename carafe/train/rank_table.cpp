#include "carafe/train/rank_table.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace carafe {
namespace {

std::string Range(size_t first, size_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

}  // namespace

RankFacts MyFacts(const Group& group, const Stream& stream, int64_t rows) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int online = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  return {.host = group.host(),
          .device = stream.device().name(),
          .cores = known ? std::max(CPU_COUNT(&set), 1) : online,
          .all_cores = online,
          .threads = stream.threads(),
          .rows = rows};
}

std::vector<RankFacts> GatherFacts(Group& group, const RankFacts& mine) {
  const nlohmann::json packed = {mine.host,      mine.device,  mine.cores,
                                 mine.all_cores, mine.threads, mine.rows};
  std::vector<RankFacts> ranks;
  for (const std::string& text :
       group.AllGather(packed.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                       "what each rank works with")) {
    const nlohmann::json p = nlohmann::json::parse(text);
    ranks.push_back({p[0], p[1], p[2], p[3], p[4], p[5]});
  }
  return ranks;
}

std::vector<std::string> RankTable(const std::vector<RankFacts>& ranks) {
  std::vector<std::array<std::string, 6>> rows = {
      {"rank", "host", "device", "cores", "threads", "batch"}};
  for (size_t begin = 0; begin < ranks.size();) {
    const RankFacts& facts = ranks[begin];
    size_t last = begin;
    while (last + 1 < ranks.size() && ranks[last + 1] == facts) ++last;
    rows.push_back({Range(begin, last), facts.host, facts.device,
                    fmt::format("{} of {}", facts.cores, facts.all_cores),
                    fmt::format("{}", facts.threads), fmt::format("{}", facts.rows)});
    begin = last + 1;
  }
  std::array<size_t, 6> widths = {};
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) line += fmt::format("  {:<{}}", row[c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(line);
  }
  return lines;
}

std::string PinningAdvice(const std::vector<RankFacts>& ranks, bool pin) {
  const auto pinned = [](const RankFacts& r) {
    return r.device == "CPU" && r.threads > r.cores && r.cores < r.all_cores;
  };
  const auto first = std::find_if(ranks.begin(), ranks.end(), pinned);
  if (first == ranks.end()) return "";
  return fmt::format(
      "{} of {} ranks are pinned to fewer cores than they have threads (rank {} on {}: {} threads "
      "on {} of {} cores): {}",
      std::count_if(ranks.begin(), ranks.end(), pinned), ranks.size(), first - ranks.begin(),
      first->host, first->threads, first->cores, first->all_cores,
      pin ? "give fewer --threads, start fewer ranks, or leave --pin out"
          : "start with carafe launch, or give mpirun --bind-to none (Open MPI) or -bind-to none "
            "(MPICH)");
}

}  // namespace carafe
