#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include <fstream>

#include "carafe/base/log.h"

namespace carafe::fuzz {
namespace {

struct OwnFolder {
  OwnFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "carafe_fuzz_XXXXXX").string();
    Ensure(mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path = pattern;
    std::filesystem::current_path(path);
    SetLogToStderr(false);
  }
  ~OwnFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

const std::filesystem::path& Folder() {
  static const OwnFolder folder;
  return folder.path;
}

std::string WriteInput(const std::string& name, const uint8_t* data, size_t size) {
  const std::filesystem::path path = Folder() / name;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return path.string();
}

}  // namespace carafe::fuzz
