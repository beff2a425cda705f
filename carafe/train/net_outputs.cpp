#include "carafe/train/net_outputs.h"

#include <fmt/format.h>

#include "carafe/base/file.h"

namespace carafe {
namespace {

constexpr char kFixedColumns[] = "Iteration,time,loss,";

}  // namespace

NetOutputs::NetOutputs(const std::string& prefix, int rank, int size, size_t test_nets)
    : path_(rank == 0 ? prefix + ".netoutputs" : ""),
      own_path_(size > 1 ? fmt::format("{}.netoutputs.{}", prefix, rank) : ""),
      blocks_(1 + test_nets, {.header = kFixedColumns, .rows = ""}),
      own_{.header = kFixedColumns, .rows = ""} {
  Write();
}

// The names are known with the first row.
void NetOutputs::Add(const OutputRow& row, Block& block) {
  if (block.rows.empty())
    for (const Score& score : row.scores) block.header += score.Label() + ",";
  block.rows += fmt::format("{},{:g},{:g},", row.iteration, row.seconds, row.loss);
  for (const Score& score : row.scores) block.rows += fmt::format("{:g},", score.value);
  block.rows += "\n";
}

void NetOutputs::AddTrain(const OutputRow& mean) { Add(mean, blocks_[0]); }
void NetOutputs::AddOwn(const OutputRow& own) { Add(own, own_); }
void NetOutputs::AddTest(size_t net, const OutputRow& mean) { Add(mean, blocks_.at(1 + net)); }

void NetOutputs::Write() const {
  if (!path_.empty()) {
    std::string text;
    for (const Block& block : blocks_) text += block.header + "\n" + block.rows + "\n";
    WriteFileAtomically(path_, text);
  }
  if (!own_path_.empty()) WriteFileAtomically(own_path_, own_.header + "\n" + own_.rows + "\n");
}

}  // namespace carafe
