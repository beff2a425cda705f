// The table at the start of a run: which rank works where, on what, with how much.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/core/stream.h"

namespace carafe {

struct RankFacts {
  std::string host;
  std::string device;  // "CPU", "GPU 0 (...)"
  int cores = 0;       // that this process may use
  int all_cores = 0;   // of the host
  int threads = 1;
  int64_t rows = 0;  // of one pass

  bool operator==(const RankFacts&) const = default;
};

RankFacts MyFacts(const Group& group, const Stream& stream, int64_t rows);

// A collective call; element r is rank r's.
std::vector<RankFacts> GatherFacts(Group& group, const RankFacts& mine);

// A header, then one line for each row of like ranks: "0-3", "h1", ...
std::vector<std::string> RankTable(const std::vector<RankFacts>& ranks);

// Of ranks that are pinned to fewer cores than they have threads, by the launcher or by --pin
// (`pin` is that); "" if there is none.
std::string PinningAdvice(const std::vector<RankFacts>& ranks, bool pin);

}  // namespace carafe
