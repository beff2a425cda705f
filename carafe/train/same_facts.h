// What must be alike on all ranks before they train together, although each was started with a
// command line of its own and may read files of its own host.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/group.h"
#include "carafe/net/net.h"

namespace carafe {

struct NamedFact {
  std::string name;   // "--solver", "the data of layer \"data\""
  std::string value;  // "" if absent
};

// A collective call. Throws Error on all ranks alike if a fact of the same name differs, or is on
// some ranks only: it names the fact, both ranks and both values. `fix` says what to do then.
void CheckSame(Group& group, const std::vector<NamedFact>& mine, const std::string& fix);

// The fingerprint of every data layer's data set (data/dataset.h). Throws DataError.
template <typename T>
std::vector<NamedFact> DataFacts(const Net<T>& net);

// The layers with all their settings, but for the places of files, which every host may choose.
template <typename T>
NamedFact NetFact(const Net<T>& net);

}  // namespace carafe
