// A solver's file: its settings, checked, and the nets it names with the states they run in.
#pragma once

#include <string>
#include <vector>

#include "carafe/net/net_spec.h"
#include "carafe/proto/messages.h"
#include "carafe/proto/text.h"

namespace carafe {

struct SolverSpec {
  SolverParameter param;
  Place place;
  std::string path;  // "" when made in memory
};

// A net of a solver: its file and the state (phase, level, stages) to filter it by.
struct SolverNet {
  NetSpec spec;
  NetState state;
};

// Reads and checks a solver prototxt: the old `solver_type` becomes `type`; an unset
// snapshot_prefix becomes the path without its extension. Throws ConfigError with position.
SolverSpec LoadSolverSpec(const std::string& path);
SolverSpec ParseSolverSpec(const std::string& text, const std::string& file);

// Level and stages are added to those of the file, as from the command line.
SolverNet TrainNetOf(const SolverSpec& spec, int level = 0,
                     const std::vector<std::string>& stages = {});
std::vector<SolverNet> TestNetsOf(const SolverSpec& spec, int level = 0,
                                  const std::vector<std::string>& stages = {});

}  // namespace carafe
