// What ranks that train alone for a while (exchange/local_steps.cpp) keep apart from each other:
// the history of each rank's update rule, and the momentum of the outer step, which is equal on all
// ranks. Held here while there is no exchange to keep it: in a snapshot, or between two
// connections.
//
// Rank 0's history is the one that every .solverstate has; those of the others are tensors of their
// own. With as many ranks a run continues with the same bits. With another number every rank
// begins with the mean of all histories.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "carafe/core/blob.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

template <typename T>
class LocalHistory {
 public:
  using Tensors = std::map<std::string, std::vector<T>>;
  static bool IsName(const std::string& tensor);

  // Collective calls; the exchange has been drained. `history` is this rank's.
  void Gather(Exchange<T>& exchange, Group& group, Stream& stream,
              const std::vector<Blob<T>>& history);
  void Restore(Exchange<T>& exchange, Group& group, Stream& stream, std::vector<Blob<T>>& history);

  // On rank 0; empty on the others.
  const Tensors& tensors() const { return tensors_; }
  void Set(Tensors tensors) { tensors_ = std::move(tensors); }

 private:
  int StoredRanks() const;  // 1: there is no history but rank 0's

  Tensors tensors_;
};

}  // namespace carafe
