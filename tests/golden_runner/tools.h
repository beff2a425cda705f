// Command line tools as the cases of files need them.
#pragma once

#include <string>
#include <vector>

#include "case.h"

namespace carafe::golden {

// Runs a tool of the tools folder in the working directory. Throws Missing if it is not there, and
// std::runtime_error with its output if it fails.
void RunTool(const Case& c, const std::string& tool, const std::vector<std::string>& args);

}  // namespace carafe::golden
