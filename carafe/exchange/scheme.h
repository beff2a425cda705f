// The table of synchronous schemes: which programs move gradients and values, and which ranks
// update. A scheme is a row; Synchronous (synchronous.h) runs it on one rank, SimCluster
// (tests/support) on a thousand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "carafe/base/registry.h"
#include "carafe/exchange/engine.h"
#include "carafe/exchange/host_layout.h"

namespace carafe {

constexpr size_t kFirstMessageBytes = size_t{128} << 10;  // until the line has been measured

// What a scheme may know when it writes programs.
struct SchemeSettings {
  size_t message_bytes = 0;        // of one message, about; 0: kFirstMessageBytes
  int branches = 2;                // children per node of the tree that sends values out
  std::string algorithm = "auto";  // of sums that end on all ranks: auto, owners, halving
  // Seconds that rank 0 waits for the gradients of others, counted from when its own are complete;
  // < 0: forever. For schemes with may_skip_late.
  double timeout = -1;
  HostLayout hosts = {};  // decides the order of sums, whatever the scheme and the algorithm
};

struct Scheme {
  std::string name;
  std::string summary;
  bool root_updates = false;   // rank 0 alone updates, and sends the values out
  bool may_skip_late = false;  // sums leave late ranks out after SchemeSettings::timeout
  bool takes_factors = false;  // in place of gradients, where layers offer them
  // Writes the programs for `bytes` bytes in `count` elements.
  using Writer = std::function<std::vector<Program>(const SchemeSettings&, int rank, int size,
                                                    int64_t count, int64_t bytes)>;
  Writer sum;
  Writer spread;            // for root_updates
  Writer encoded_sum = {};  // sums of encoded parts (codec.h); empty: codecs are not supported
  // In a few words, for the log; settings.hosts is known.
  std::function<std::string(const SchemeSettings&, int size)> describe;

  bool UpdatesOn(int rank) const { return !root_updates || rank == 0; }
};

using SchemeRegistry = Registry<Scheme>;
// A scheme that is registered; an exchange of another strategy is none.
const Scheme& FindScheme(const std::string& name);

// The memory of one bucket on one rank; null pointers are for simulations.
struct BucketMemory {
  void* gradient = nullptr;
  void* value = nullptr;
  int64_t count = 0;                        // elements
  int priority = 0;                         // lower is more urgent
  std::vector<void*> other_gradients = {};  // of this rank's workers 1, 2, ..
  const Codec* codec = nullptr;             // of the gradients; see Transfer, as the next two
  float* part_residual = nullptr;
  float* sum_residual = nullptr;
  // Not empty: `gradient` holds a part of each rank, this many elements each, one after the other;
  // nothing is summed, every part goes to all ranks (factor_program.h).
  std::vector<int64_t> parts = {};
};

// What the engine of one rank moves for a scheme: transfer b is the sum of bucket b. With
// root_updates transfer B + b, of B buckets, sends its values out. Where !UpdatesOn(rank),
// gradients are set to 0 once they are sent, as an update does.
std::vector<Transfer> TransfersOf(const Scheme& scheme, const SchemeSettings& settings, int rank,
                                  int size, const ElementType& elements,
                                  const std::vector<BucketMemory>& buckets);

}  // namespace carafe
