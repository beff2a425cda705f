// The test phase over all ranks: batch b runs on rank b mod P, and the outputs are added at rank 0
// in the order of b, so that P ranks print exactly the digits that one prints.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/net/net.h"

namespace carafe {

// One element of one output blob, or its mean over the batches.
struct Score {
  std::string blob;
  int element = 0;     // within the blob
  bool single = true;  // the blob has one element only
  double value = 0;
  float loss_weight = 0;

  std::string Label() const;  // "accuracy", or "prob[3]"
};

struct TestResult {
  double loss = 0;                           // mean over the batches
  std::vector<Score> scores;                 // means
  std::vector<std::vector<double>> batches;  // per batch, element by element (where kept)
};

// The outputs of the net after a forward pass, in the log's order.
template <typename T>
std::vector<Score> OutputScores(Stream& stream, const Net<T>& net);

// Runs batches first .. first + count - 1. `forward(batch, stride)` runs the net on one batch and
// returns its loss. The result is whole on rank 0; the other ranks get an empty one.
// `done(batches)` is told of progress here.
template <typename T>
TestResult RunTest(Group& group, Stream& stream, const Net<T>& net, int64_t first, int64_t count,
                   const std::function<double(int64_t batch, int64_t stride)>& forward,
                   const std::function<void(int64_t)>& done = {});

// " (* 1 = 0.0325 loss)" for an output that counts as a loss, else "".
std::string LossPart(const Score& score);

}  // namespace carafe
