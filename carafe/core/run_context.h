// All that a layer may know of its surroundings. Made by the caller that runs the net (solver,
// test, tool); passed down by reference.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "carafe/core/stream.h"

namespace carafe {

// Which pass this is: the key of random draws and of the records that data layers take.
struct Pass {
  uint64_t seed = 0;
  int64_t index = 0;   // n = iteration * iter_size + sub-pass; in TEST the number of the test batch
  int64_t stride = 1;  // how far the next pass of this replica lies; data layers read ahead by it
  int64_t origin = 0;  // position in the data of slot 0 of pass 0; not 0 after a resume with
                       // another global batch: samples_seen - index * global batch

  bool operator==(const Pass&) const = default;
};

// This worker among all that train the same net.
struct Replica {
  int index = 0;
  int count = 1;
  int64_t global_batch = 0;  // rows of all workers together; 0 means count times the rows here

  // Row r of worker w is slot r * count + w of the pass: what one worker with the global batch
  // calls row j.
  int64_t Slot(int64_t row) const { return row * count + index; }
  int64_t GlobalRows(int64_t rows) const { return global_batch > 0 ? global_batch : rows * count; }

  bool operator==(const Replica&) const = default;
};

// Sums over all workers, in the order of the fixed tree. Blocks; every worker must call it alike.
class GroupSum {
 public:
  virtual ~GroupSum() = default;
  virtual void Sum(std::span<double> values) = 0;
};

// Receives what took how long. Called by the thread that did the work.
class Trace {
 public:
  virtual ~Trace() = default;
  virtual void Begin(std::string_view category, std::string_view name) = 0;
  virtual void End() = 0;
};

struct RunContext {
  Stream& stream;
  Pass pass = {};
  Replica replica = {};
  GroupSum* group = nullptr;     // null with one worker
  bool sync_batch_norm = false;  // BatchNorm takes the batch of all workers
  Trace* trace = nullptr;        // null when nobody looks
};

}  // namespace carafe
