// How a net would train on a cluster that is not at hand (docs/plan.md): a step's time for each
// exchange and number of ranks, from the profile of one machine and the numbers of a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/train/profile.h"

namespace carafe {

// Ranks whose passes take `factor` times as long: the last `ranks` ranks in every step, or any rank
// in a share of its steps, drawn at random (the same draw for the same rank and step).
struct Stragglers {
  int ranks = 0;
  double share = 0;
  double factor = 1;
};
// "1:2.0" (one rank, always), "5%:4" (every rank, one step in twenty), with commas. Throws
// ConfigError.
std::vector<Stragglers> ParseStragglers(const std::string& text, const std::string& flag);
// By which factor all of them together slow a rank in a step.
double SlowdownOf(const std::vector<Stragglers>& slow, int ranks, int rank, int64_t step);

struct ForecastSettings {
  int ranks = 64;             // rows for 1, 2, 4 .. of them, and for all
  double bandwidth = 1.25e9;  // bytes per second and rank, each way
  double latency = 20e-6;     // seconds
  int staleness = 3;          // of ssp
  std::vector<Stragglers> slow = {};
  int64_t most_messages = 20'000;  // of a step, that the engine simulates; beyond: the cost model
};

struct ForecastRow {
  std::string exchange = {};
  int ranks = 1;
  double step_seconds = 0;
  double speed_up = 1;         // images per second, against one rank
  double efficiency = 1;       // speed_up / ranks
  double exposed_seconds = 0;  // of a step: what passes and updates do not hide
  int64_t bytes = 0;           // that the busiest rank sends in a step
  std::string source =
      {};  // "profile" (one rank), "engine", or "model" where the engine takes too long
  std::string plan = {};  // of auto: the layers by factors, "" if there are none
};

struct Forecast {
  double one_rank_seconds = 0;
  int64_t gradient_bytes = 0;
  std::vector<ForecastRow> rows;  // exchange by exchange
};

// Throws ConfigError for a net that learns nothing.
Forecast MakeForecast(const MachineProfile& profile, const ForecastSettings& settings);

// The reports.
std::string ForecastTable(const MachineProfile& profile, const ForecastSettings& settings,
                          const Forecast& forecast);
std::string ForecastJson(const MachineProfile& profile, const ForecastSettings& settings,
                         const Forecast& forecast);
// A plot: speed-up over ranks, a line for each exchange, both axes logarithmic.
std::string ForecastSvg(const MachineProfile& profile, const ForecastSettings& settings,
                        const Forecast& forecast);

}  // namespace carafe
