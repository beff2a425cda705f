// Whole files: read, and written so that a crash or a full disk never leaves half of one under its
// final name.
#pragma once

#include <string>
#include <string_view>

namespace carafe {

// Throws DataError with the system's reason.
std::string ReadFile(const std::string& path);

// Writes path.tmp.<pid>, fsyncs, renames to path, fsyncs the folder. Throws DataError; the
// temporary is removed then.
void WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace carafe
