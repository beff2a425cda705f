// Command line tools as the cases of files need them.
#pragma once

#include <string>
#include <vector>

#include "case.h"

namespace carafe::golden {

// Runs a program of the tools folder, or the command of `carafe` of that name, in the working
// directory. Throws std::runtime_error if there is neither, or with its output if it
// fails.
void RunTool(const Case& c, const std::string& tool, const std::vector<std::string>& args);

}  // namespace carafe::golden
