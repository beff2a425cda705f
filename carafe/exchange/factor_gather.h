// The factors of all workers of all ranks, and the summed gradients that they make.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/core/blob.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

// For every parameter that is exchanged by factors a block: the part of each rank, which is the A
// of its workers, one after the other, and then their B. The engine fills in the parts of the other
// ranks. All memory is taken in the constructor.
//
// The gradient is one product over the rows of all workers in the order of the slots of the global
// batch (slot j is row j / W of worker j mod W, of W workers), which is that of one worker with all
// rows. All ranks compute it, by the same kernel from the same content.
//
// Offer and Close are called by the threads of the workers, each for itself, between the steps of
// the block's transfer; Form by any of them once the transfer is complete.
template <typename T>
class FactorGather {
 public:
  // A collective call: the ranks exchange how many rows each of their workers has. Takes the
  // parameters with ParamInfo::factors, which are the same on all ranks, but for their rows.
  FactorGather(Group& group, std::span<const ParamInfo<T>> params, int workers);

  bool takes(int param) const { return At(blocks_, param) != nullptr; }
  T* memory(int param) const { return At(blocks_, param)->memory; }
  // Elements of each rank's part.
  const std::vector<int64_t>& parts(int param) const { return At(blocks_, param)->parts; }

  // Copies the next rows of this rank's worker.
  void Offer(int worker, int param, const StepFactors<T>& factors);
  // Sets the rows to 0 that were not offered. The next step begins.
  void Close(int worker, int param);
  // Once a step, the first time that it is called: `gradient`, which is 0 before, becomes the sum.
  void Form(int param, int64_t step, T* gradient, Stream& stream);

 private:
  struct Place {  // of one worker, in elements from the start of the block
    int64_t a, b, rows;
  };
  struct Block {
    explicit Block(BufferUse use) : buffer(use) {}
    std::string name;
    FactorShape shape;  // rows: of all workers
    Buffer buffer;
    T* memory = nullptr;
    std::vector<int64_t> parts;    // by rank
    std::vector<Place> places;     // by worker of all ranks
    std::vector<int64_t> offered;  // by worker of this rank: rows in this step
    std::vector<T> a, b;           // all rows in the order of the slots
    std::vector<T> product;        // working memory
    std::mutex mutex;              // guards a, b, product and formed
    int64_t formed = 0;            // the last step whose gradient was formed
  };

  void LayOut(Block& block, std::span<const int64_t> rows, int workers);

  const int first_worker_;                      // of this rank among all
  std::vector<std::unique_ptr<Block>> blocks_;  // by parameter; null: not by factors
};

}  // namespace carafe
