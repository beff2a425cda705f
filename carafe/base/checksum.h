// Checksums of whole files (XXH3, 128 bits): they find damage by disks, copies and full disks. They
// protect from accidents, not from an attacker.
#pragma once

#include <cstdint>
#include <string>

namespace carafe {

constexpr char kChecksumKind[] = "XXH3-128";
constexpr size_t kChecksumBytes = 16;

// Of the first `bytes` bytes of the file, 16 bytes long (the canonical, big-endian form). Reads in
// pieces. Throws DataError if the file cannot be read or is shorter.
std::string FileChecksum(const std::string& path, uint64_t bytes);
std::string FileChecksum(const std::string& path);  // of all of it

// As 32 hexadecimal digits, the form that `xxhsum -H2` prints.
std::string ChecksumText(const std::string& checksum);

}  // namespace carafe
