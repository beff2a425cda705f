// Opening a file, and the errors of it, for code that reads or writes a file in pieces.
#pragma once

#include <fstream>
#include <string>

#include "carafe/base/error.h"

namespace carafe {

// To read, in binary. Throws DataError with the system's reason.
std::ifstream OpenFile(const std::string& path);

// The error of a system call on the file: what was being done, the reason of `error` (an errno) and
// the remedy.
DataError FileError(const std::string& path, const char* doing, int error);

}  // namespace carafe
