// `--net_outputs=PREFIX`: losses and outputs as PMLS-Caffe wrote them, a CSV of blocks:
//   Iteration,time,loss,<output>,..,
//   0,0.12,2.30,2.30,
// one block for the train net and one for each test net, each followed by an empty line. A line
// ends with a comma, as there; time is in seconds from the start of the run.
//   PREFIX.netoutputs       rank 0: means over all workers, and the test nets
//   PREFIX.netoutputs.R     with several ranks: what rank R's own workers had in training
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/train/tester.h"

namespace carafe {

// One row of a block.
struct OutputRow {
  int64_t iteration = 0;
  double seconds = 0;
  double loss = 0;
  std::vector<Score> scores;
};

// Rows are kept until Write: a file holds one block after the other.
class NetOutputs {
 public:
  // Writes files without rows. Throws DataError where that fails.
  NetOutputs(const std::string& prefix, int rank, int size, size_t test_nets);

  void AddTrain(const OutputRow& mean);  // rank 0's are written
  void AddOwn(const OutputRow& own);
  void AddTest(size_t net, const OutputRow& mean);
  void Write() const;  // throws DataError

 private:
  struct Block {
    std::string header, rows;
  };
  static void Add(const OutputRow& row, Block& block);

  const std::string path_, own_path_;  // "": is not written by this rank
  std::vector<Block> blocks_;          // of the train net, then of the test nets
  Block own_;
};

}  // namespace carafe
