// A log file beside that of the run, for --log_dir.
#pragma once

#include <string>

namespace carafe {

// Appends all log lines to this file as well; throws DataError when it cannot be opened.
void SetSecondLogFile(const std::string& path);

}  // namespace carafe
