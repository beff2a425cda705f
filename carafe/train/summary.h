// `carafe summary`: what a net is and costs, layer by layer, found without taking memory for blobs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/net/net.h"

namespace carafe {

// Bytes are those of float. A parameter that several layers share counts at its first.
struct LayerCost {
  std::string name, type;
  std::vector<std::string> top_names;
  Shapes tops;
  int64_t parameters = 0;        // learned (frozen ones too)
  int64_t statistics = 0;        // carried, but not learned: BatchNorm's running means
  int64_t frozen = 0;            // of the parameters: those with lr_mult 0
  int64_t multiply_adds = 0;     // of Forward, for the whole batch
  int64_t activation_bytes = 0;  // new memory for the tops' values: none in place or for views
  int64_t exchange_bytes = 0;    // gradients and statistics that one worker tells the others
};

struct NetSummary {
  std::string name;
  Phase phase = TRAIN;
  int64_t batch = 1;  // the first axis of the first blob: rows ("images") of one pass
  std::vector<LayerCost> layers;
  LayerCost total;    // its tops are the net's outputs
  MemoryPlan memory;  // of a pass: forward, and in TRAIN backward
};

NetSummary Summarize(const Net<float>& net);

// An aligned table with human units (k, M, G; kB, MB, GB: powers of 1000) and a line of totals.
std::string SummaryTable(const NetSummary& summary);
std::string SummaryJson(const NetSummary& summary);  // exact numbers

// "60.97 M", "1.58 G", "431 k", "12": three or four significant digits.
std::string HumanNumber(int64_t number);

}  // namespace carafe
