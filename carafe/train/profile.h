// The profile of a machine: how long the layers of a net take on it, and how fast it multiplies and
// updates. `carafe time --profile` writes one, `carafe plan --profile` reads it. One JSON format
// for all devices, described in docs/plan.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "carafe/exchange/sim_training.h"
#include "carafe/net/net.h"
#include "carafe/train/timing.h"

namespace carafe {

struct ProfiledParam {
  int64_t bytes = 0;         // of the gradient
  FactorShape factors = {};  // that can be sent in its place; rows 0: none

  bool operator==(const ProfiledParam& other) const;
};

struct ProfiledLayer {
  std::string name = {}, type = {};
  double forward_ms = 0, backward_ms = 0;
  std::vector<ProfiledParam> params = {};  // that it is the first to use, but for frozen ones
};

struct MachineProfile {
  std::string net = {};     // its name
  std::string device = {};  // "cpu", "gpu"
  int64_t batch = 0;        // rows of a pass
  int threads = 0;          // of the passes
  double gflops = 0;        // of products of factors: 10^9 floating-point operations per second
  double update_gb = 0;     // gigabytes of gradients that the update rule takes per second
  std::vector<ProfiledLayer> layers = {};
};

// The net's part of a profile: no times, no rates.
MachineProfile ProfileOfNet(const Net<float>& net);
// Adds times that TimeNet has found to ProfileOfNet, and measures the rates: half a second.
MachineProfile MeasureProfile(Stream& stream, const Net<float>& net, const NetTime& time);

std::string ProfileJson(const MachineProfile& profile);
// Throws DataError that names the file, and the field that is missing or wrong.
MachineProfile ReadProfile(const std::string& path);
// Throws ConfigError unless the profile, read from `path`, is of this net and batch.
void CheckProfile(const MachineProfile& profile, const std::string& path, const Net<float>& net,
                  const std::string& net_file);

// With factors wherever there are any.
SimNet SimNetOf(const MachineProfile& profile);

}  // namespace carafe
