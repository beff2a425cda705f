// The modes of exchange_bench; see main.cpp for what each is for.
#pragma once

#include <string>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

struct SumsOptions {
  std::string exchange = "allreduce";
  SchemeSettings scheme;
  int64_t min_bytes = 4096, max_bytes = int64_t{16} << 20;
  double seconds = 0.5;  // per size, about
};
// One JSON line per size, by rank 0: bytes, best and median seconds, wrong elements.
void RunSums(Group& group, const SumsOptions& options);

// A layer as the replay sees it: how long it computes, and what it must exchange.
struct LayerProfile {
  std::string name;
  double forward = 0, backward = 0;  // seconds
  std::vector<int64_t> params;       // elements
};
std::vector<LayerProfile> ReadProfile(const std::string& path);
// Times every layer of a net and writes the profile. Data that are not there become inputs, of
// `item` (channels, height, width) where the net does not say how large they are.
void WriteProfile(const std::string& model, const std::vector<int64_t>& item, int threads,
                  int iterations, const std::string& path);

struct ReplayOptions {
  std::string profile;
  std::string exchange = "allreduce";
  SchemeSettings scheme;
  double bucket_mb = 0;  // 0: merged by what a sum costs and when gradients are ready
  bool overlap = true;
  int steps = 20;
};
// Iterations in which layers are sleeps; one JSON line, by rank 0.
void RunReplay(Group& group, const ReplayOptions& options);

struct TrainingOptions {
  std::string solver;
  int classes = 1;  // labels are drawn below this
  std::string exchange = "allreduce";
  SchemeSettings scheme;
  bool overlap = true;
  bool alone = false;  // every rank trains for itself, at the same time as the others
  int threads = 1;
  double seconds = 5;  // of measured steps, about
};
// Iterations of a real net on inputs that stay; one JSON line, by rank 0.
void RunTraining(Group& group, const TrainingOptions& options);

}  // namespace carafe
