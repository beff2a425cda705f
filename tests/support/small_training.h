// A small training for tests: random pictures in a database of its own, a net of some 500
// parameters with crops, mirroring, shuffling and dropout, and ranks that are threads.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "carafe/comm/run_ranks.h"
#include "carafe/proto/messages.h"
#include "carafe/train/trainer.h"

namespace carafe {

class SmallTraining : public ::testing::Test {
 protected:
  void SetUp() override;  // writes folder_/lmdb
  void TearDown() override;

  static std::vector<Datum> Pictures();  // those of folder_/lmdb
  void WriteDatabase(const std::string& name, const std::vector<Datum>& records) const;
  std::string Net(int batch, bool shuffle = true) const;
  SolverSpec Spec(int batch, const std::string& more, int iterations = 10) const;
  // BatchNorm after the convolution, and a frozen first layer if asked for.
  static void Change(SolverSpec& spec, bool normed, bool frozen);
  // The .solverstate of an iteration with snapshot_prefix folder_/snap.
  std::string StatePath(int iteration, SolverParameter::SnapshotFormat format) const;

  std::filesystem::path folder_;
};

// No files, no signals, replicas compared often.
TrainOptions Quiet();

template <typename T>
using Weights = std::vector<std::vector<T>>;

template <typename T>
Weights<T> WeightsOf(Trainer<T>& trainer);

// Runs the solver on P thread ranks; the replicas must end bit-equal.
template <typename T>
Weights<T> Train(int ranks, const SolverSpec& spec, const TrainOptions& options,
                 const RankLink& link = {});

// max |a - b| / max |a| over the blobs.
template <typename T>
double Difference(const Weights<T>& a, const Weights<T>& b);

}  // namespace carafe
