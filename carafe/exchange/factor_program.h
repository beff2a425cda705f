// The program of an exchange of factors: every rank's part goes to all ranks, nothing is summed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "carafe/exchange/program.h"

namespace carafe {

using RanksByHost = std::vector<std::vector<int>>;

// The parts of all ranks lie one after the other, `parts` elements each. Chunks of one message of
// at most `message` elements for each part. Every rank receives P-1 parts. A part is sent to one
// rank of every other host, which passes it on inside its host: no part enters a host twice.
// `hosts`, any layout of all ranks; empty: every rank is a host.
std::vector<Program> GatherParts(int rank, const RanksByHost& hosts, std::span<const int64_t> parts,
                                 int64_t message);

}  // namespace carafe
