// <prefix>_iter_<N>.manifest: the checksums of a snapshot's files, written after them. Its lines
// are those of `xxhsum -H2`, so `xxhsum -c` in that folder verifies the files without Carafe.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace carafe {

// Of a .solverstate or .caffemodel, in either form.
std::string ManifestName(const std::string& snapshot_file);

// `files`: paths in the manifest's folder, with their checksums (base/checksum.h). Throws
// DataError.
void WriteManifest(const std::string& path,
                   const std::vector<std::pair<std::string, std::string>>& files);

// Throws DataError if a file that the manifest names is missing or differs, or if a line is not one
// of a manifest.
void CheckManifest(const std::string& path);

}  // namespace carafe
