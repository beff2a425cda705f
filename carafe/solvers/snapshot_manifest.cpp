#include "carafe/solvers/snapshot_manifest.h"

#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "carafe/base/checksum.h"
#include "carafe/base/error.h"
#include "carafe/base/file.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigits = 2 * kChecksumBytes;
constexpr char kGap[] = "  ";  // between checksum and name

}  // namespace

std::string ManifestName(const std::string& snapshot_file) {
  fs::path path(snapshot_file);
  if (path.extension() == ".h5") path.replace_extension();
  return path.replace_extension(".manifest").string();
}

void WriteManifest(const std::string& path,
                   const std::vector<std::pair<std::string, std::string>>& files) {
  std::string text;
  for (const auto& [file, checksum] : files) {
    text += ChecksumText(checksum) + kGap + fs::path(file).filename().string() + "\n";
  }
  WriteFileAtomically(path, text);
}

void CheckManifest(const std::string& path) {
  std::istringstream lines(ReadFile(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.size() <= kDigits + 2 || line.compare(kDigits, 2, kGap) != 0) {
      throw DataError(path, -1, "this is not a manifest of checksums",
                      "the file is damaged; `carafe snapshots` verifies snapshots without it, too");
    }
    const std::string name = line.substr(kDigits + 2);
    const std::string file = (fs::path(path).parent_path() / fs::path(name).filename()).string();
    if (ChecksumText(FileChecksum(file)) == line.substr(0, kDigits)) continue;
    throw DataError(file, -1, fmt::format("it does not match its checksum in {}", path),
                    "the file is damaged or of another run; use an older snapshot");
  }
}

}  // namespace carafe
