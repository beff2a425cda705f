// What the codecs of all ranks have lost and still owe (exchange/codec.h), while there is no
// exchange to keep it: in a snapshot, or between two plans of buckets.
//
// A source is what encodes a part: a rank, or a host where sums are made inside hosts first. For
// every parameter there is a tensor of the residuals of each source's parts, and one of those of
// the sums, each of which is made by one rank. With the same number of sources a run continues with
// the same bits; otherwise source 0 gets the sum of all of them, so that nothing is lost. Gradients
// are summed over all workers: residuals scale with their number.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "carafe/exchange/exchange.h"

namespace carafe {

template <typename T>
class Residuals {
 public:
  using Tensors = std::map<std::string, std::vector<T>>;
  static bool IsName(const std::string& tensor);

  // Collective calls; the exchange has been drained. Both count all `workers` of all ranks.
  void Gather(Exchange<T>& exchange, Group& group, int workers);
  void Restore(Exchange<T>& exchange, Group& group, int workers);

  // On rank 0; empty on the others.
  const Tensors& tensors() const { return tensors_; }
  void Set(Tensors tensors, int workers);

 private:
  std::vector<T> ForSource(const std::string& what, int64_t count, int source, int sources) const;
  std::vector<T> ForSums(const std::string& what, int64_t count, int sources) const;
  int StoredSources() const;  // 0: there are no tensors

  Tensors tensors_;
  int workers_ = 1;  // that the tensors were made with
};

}  // namespace carafe
