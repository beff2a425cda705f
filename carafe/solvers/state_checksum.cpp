#include "carafe/solvers/state_checksum.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "carafe/base/checksum.h"
#include "carafe/base/file_access.h"

namespace carafe {
namespace {

// Tag of field 10003 with a length (10003 << 3 | 2, as a varint), and the length.
constexpr std::string_view kHeader("\x9a\xf1\x04\x10", 4);
static_assert(kChecksumBytes == 0x10 && ((0x1a | 0x71 << 7 | 0x04 << 14) == (10003 << 3 | 2)));
constexpr uint64_t kTrailerBytes = kHeader.size() + kChecksumBytes;

}  // namespace

void AppendStateChecksum(const std::string& path) {
  const std::string trailer = std::string(kHeader) + FileChecksum(path);
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) throw FileError(path, "opening for writing", errno);
  const ssize_t written = write(file, trailer.data(), trailer.size());
  const int error = written < 0 ? errno : ENOSPC;
  close(file);
  if (written != static_cast<ssize_t>(trailer.size())) throw FileError(path, "writing", error);
}

bool VerifyStateChecksum(const std::string& path) {
  std::ifstream file = OpenFile(path);
  file.seekg(0, std::ios::end);
  const auto length = static_cast<std::streamoff>(file.tellg());
  if (length < static_cast<std::streamoff>(kTrailerBytes)) return false;
  const uint64_t covered = static_cast<uint64_t>(length) - kTrailerBytes;
  std::string trailer(kTrailerBytes, '\0');
  file.seekg(static_cast<std::streamoff>(covered));
  if (!file.read(trailer.data(), static_cast<std::streamsize>(trailer.size()))) return false;
  if (!trailer.starts_with(kHeader)) return false;
  if (trailer.substr(kHeader.size()) == FileChecksum(path, covered)) return true;
  throw DataError(path, -1, "its content does not match its checksum",
                  "the file is damaged; use an older snapshot, or --snapshot=auto");
}

}  // namespace carafe
