// Old forms of nets and solvers, brought up to date when they are read. A net goes through these
// steps, each of which does nothing to a net without its form:
//   V0      layers { layer { type: "conv" .. } }      ->  V1           upgrade_v0.cpp
//   fields  scale, mirror, .. of V1 data layers       ->  transform_param
//   V1      layers { type: CONVOLUTION blobs_lr .. }  ->  layer        upgrade_v1.cpp
//   inputs  input, input_shape, input_dim             ->  an Input layer
//   BatchNorm's three params                          ->  not learned
//   forks   DepthwiseConvolution, ceil_mode, hole     ->  Caffe's names  upgrade_forks.cpp
#pragma once

#include <string>
#include <vector>

#include "carafe/proto/messages.h"
#include "carafe/proto/text.h"

namespace carafe {

// A net on its way through the steps. `param` is not owned.
struct OldNet {
  NetParameter* param;
  std::string file;  // for the log and for errors
  Place place;       // of the net's text, or nowhere
  // Where each of `layers` (in steps before V2) or `layer` came from, kept in step with it.
  std::vector<Place> layer_places = {};
  // Where an error about a field of the net belongs; the file if it is a binary one.
  Location At(std::string_view path) const {
    const Location at = place.Find(path);
    return at.file.empty() ? Location{file} : at;
  }
  // The same for layer i.
  Location AtLayer(int i, std::string_view path) const {
    const Location at = layer_places[static_cast<size_t>(i)].Find(path);
    return at.file.empty() ? Location{file} : at;
  }
  // False when the old file says something that the new form cannot: it was logged and left out.
  bool complete = true;
};

struct NetUpgrade {
  bool changed = false;
  bool complete = true;
  std::vector<Place> layer_places;  // one for each `layer`
};

// All steps in order, with a line in the log if any was taken. Throws ConfigError for what no step
// can understand: an unknown V0 type, `layer` and `layers` in one net, inputs without their shapes.
NetUpgrade UpgradeNet(NetParameter* net, const std::string& file, const Place& place = {});

// The steps; each returns whether the net had its form.
bool UpgradeV0(OldNet& net);
bool UpgradeDataFields(OldNet& net);
bool UpgradeV1(OldNet& net);
bool UpgradeInputs(OldNet& net);
// A BatchNorm with three `param` entries, as older files have it, gets lr_mult and decay_mult 0 in
// all of them: running statistics are not learned.
// DepthwiseConvolution, ceil_mode, hole; upgrade_forks.cpp.
bool UpgradeForkNames(NetParameter* net);
bool UpgradeBatchNorm(NetParameter* net);

// The old enumeration `solver_type` becomes the string `type`. Returns whether it was there; throws
// ConfigError if both are.
bool UpgradeSolver(SolverParameter* solver, const Place& place = {});

}  // namespace carafe
