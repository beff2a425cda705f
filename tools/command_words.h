// Flags in the words of a command that another process will parse.
#pragma once

#include <string>
#include <vector>

namespace carafe {

// The value of a flag of a command in any of Caffe's forms (-flag value, --flag=value ...), or "".
std::string FlagValue(const std::vector<std::string>& command, const std::string& flag);
std::vector<std::string> WithoutFlag(const std::vector<std::string>& command,
                                     const std::string& flag);

}  // namespace carafe
