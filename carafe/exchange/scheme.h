// One way to come to agree on the parameters: which programs move gradients and values, and who
// updates. A scheme is a row of a table; Agreement runs it on one rank, without thread or clock, so
// that the same code serves training and simulation.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "carafe/base/registry.h"
#include "carafe/exchange/engine.h"

namespace carafe {

constexpr size_t kFirstMessageBytes = size_t{128} << 10;  // until the line has been measured

// What a scheme may know when it writes programs.
struct SchemeSettings {
  size_t message_bytes = 0;        // of one message, about; 0: kFirstMessageBytes
  int branches = 2;                // of the tree that hands values out
  std::string algorithm = "auto";  // of the sum on all ranks: auto, owners, halving
  // Seconds that rank 0 waits for the gradients of others, from when its own are there; < 0: for
  // ever. Of schemes that may leave out.
  double timeout = -1;
  int local = 0;  // ranks of a host, see LocalRanks; 0: not told, as 1
};

// How many neighbouring ranks each host has, if that is the same power of two everywhere: then sums
// inside hosts first have the bits of any other sum. Else 1: every rank counts as a host.
int LocalRanks(const std::vector<std::string>& hosts);
// Why sums are not made inside hosts first, and what helps, in a few words; "" if they are, or if
// there is nothing to gain: one host only, or one rank on each.
std::string WhyFlat(const std::vector<std::string>& hosts);

struct SchemeKind {
  std::string name;
  std::string summary;
  bool root_updates = false;   // rank 0 alone updates, and hands the values out
  bool may_leave_out = false;  // late ranks, by SchemeSettings::timeout
  // The programs for `bytes` bytes in `count` elements.
  using Writer = std::function<std::vector<Program>(const SchemeSettings&, int rank, int size,
                                                    int64_t count, int64_t bytes)>;
  Writer sum;
  Writer spread;  // of root_updates
  // In a few words, for the log; settings.local is told.
  std::function<std::string(const SchemeSettings&, int size)> describe;
};

using SchemeRegistry = Registry<SchemeKind>;
// Throws ConfigError that lists the names.
const SchemeKind& FindScheme(const std::string& name);

// A bucket's memory; null pointers are for simulations.
template <typename T>
struct BucketPlace {
  T* gradient = nullptr;
  T* value = nullptr;
  int64_t count = 0;
  int priority = 0;
  std::vector<T*> other_gradients = {};  // of this rank's workers 1, 2, ..
};

// One rank's share in all sums of a step. Single-threaded.
template <typename T>
class Agreement {
 public:
  Agreement(const SchemeKind& kind, const SchemeSettings& settings, int rank, int size,
            const std::vector<BucketPlace<T>>& buckets, const ChannelTags& tags);

  // This rank's gradients of the bucket are there, and its values are not read any more.
  void OnGradients(int bucket);
  // Where updates(): the bucket has been updated.
  void OnUpdated(int bucket);
  // Of rank 0, with a timeout: late ranks are left out of the bucket's sum.
  void OnTimeUp(int bucket) { engine_.OnTimeUp(bucket); }
  void Close() { engine_.Close(); }
  bool Poll(Transport& transport);
  // Since the last call: buckets whose sum is here and asks for an update, and buckets whose new
  // values are here. Where not updates(), the gradients have become 0 by then, as an update leaves
  // them.
  std::vector<int> TakeSums() { return std::exchange(sums_, {}); }
  std::vector<int> TakeValues() { return std::exchange(values_, {}); }
  bool updates() const { return !root_updates_ || rank_ == 0; }  // this rank does
  bool Idle() const { return engine_.Idle(); }
  bool Busy() const { return engine_.Busy(); }
  std::vector<int> Awaited() const { return engine_.Awaited(); }
  int64_t bytes_sent() const { return engine_.bytes_sent(); }
  int64_t bytes_received() const { return engine_.bytes_received(); }

 private:
  const bool root_updates_;
  const int rank_;
  const std::vector<BucketPlace<T>> buckets_;
  std::vector<int> halves_;  // by bucket, where not updates(): of sent and received, what is done
  std::vector<int> sums_, values_;
  Engine<T> engine_;  // journeys: the sums of all buckets, then their values
};

}  // namespace carafe
