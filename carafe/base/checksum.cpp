#include "carafe/base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "carafe/base/file_access.h"

namespace carafe {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

uint64_t Length(std::ifstream& file) {
  file.seekg(0, std::ios::end);
  const auto end = static_cast<std::streamoff>(file.tellg());
  file.seekg(0);
  return end < 0 ? 0 : static_cast<uint64_t>(end);
}

std::string Checksum(std::ifstream& file, const std::string& path, uint64_t bytes) {
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  Ensure(state != nullptr && XXH3_128bits_reset(state.get()) == XXH_OK, "no memory for a hash");
  std::vector<char> piece(std::min(kPiece, bytes));
  for (uint64_t left = bytes; left > 0;) {
    const uint64_t size = std::min(kPiece, left);
    if (!file.read(piece.data(), static_cast<std::streamsize>(size))) {
      throw DataError(path, -1, fmt::format("reading its {} bytes failed", bytes),
                      "the file is truncated, or its disk fails");
    }
    XXH3_128bits_update(state.get(), piece.data(), size);
    left -= size;
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state.get()));
  return {reinterpret_cast<const char*>(canonical.digest), sizeof canonical.digest};
}

}  // namespace

std::string FileChecksum(const std::string& path, uint64_t bytes) {
  std::ifstream file = OpenFile(path);
  return Checksum(file, path, bytes);
}

std::string FileChecksum(const std::string& path) {
  std::ifstream file = OpenFile(path);
  const uint64_t length = Length(file);
  return Checksum(file, path, length);
}

std::string ChecksumText(const std::string& checksum) {
  std::string text;
  for (const char byte : checksum) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace carafe
