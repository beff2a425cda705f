// The checksum at the end of a .solverstate, in both forms: field 10003 of StateHead, 16 bytes,
// over all bytes before it. In HDF5 it follows the last byte that the HDF5 format counts, which its
// readers ignore. StateFileFacts announces it, so that a file that lost its end is noticed.
#pragma once

#include <string>

namespace carafe {

// Appends the checksum of all that the file holds. Throws DataError.
void AppendStateChecksum(const std::string& path);

// Whether the file ends with a checksum. Throws DataError if it does not match.
bool VerifyStateChecksum(const std::string& path);

}  // namespace carafe
