// Layers of the runner's own for the nets of the solver cases, so that update rules are checked
// against the original before the library has every layer that those nets use. A type that the
// library has is never replaced, and a stand-in never counts in a layer case.
#pragma once

#include <string>

namespace carafe::golden {

void AddStandIns();
bool IsStandIn(const std::string& type);

}  // namespace carafe::golden
