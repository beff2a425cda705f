// Where the tests find the files of the project.
#pragma once

#include <string>

namespace carafe {

std::string SourceDir();  // the top folder, without a slash at its end

}  // namespace carafe
