// Whole files: read, and written so that a crash or a full disk never leaves half of one under its
// final name.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace carafe {

// Throws DataError with the system's reason.
std::string ReadFile(const std::string& path);

// `write` makes the file path.tmp.<pid>, whose name it is given; then that one is fsynced and
// renamed to path, and the folder is fsynced. Throws DataError, or what `write` throws; the
// temporary is removed then.
void WriteAtomically(const std::string& path,
                     const std::function<void(const std::string& temporary)>& write);
void WriteFileAtomically(const std::string& path, std::string_view content);

}  // namespace carafe
