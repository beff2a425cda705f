// The flags of a command, made from its table of options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "carafe/base/option_table.h"

namespace carafe {

// Declares one flag per row. What the user writes is collected in `given`, which outlives `app`, as
// text: values are checked by OptionTable::Parse.
void DeclareFlags(CLI::App& app, const std::vector<OptionInfo>& infos, GivenOptions* given);

// "--gpu and --threads": the flags that may differ between ranks.
std::string FlagsThatMayDiffer(const std::vector<OptionInfo>& infos);

}  // namespace carafe
