#include "carafe/data/database_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "carafe/base/error.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void SyncFolder(const fs::path& folder) {
  const int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

const char kHowToMakeADatabase[] =
    "`carafe digits --out DIR` or `carafe convert_mnist_data IMAGES LABELS DB`";

void CheckDatabaseFolder(const std::string& path, const std::string& kind,
                         const std::string& file) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    const std::string looked = fs::path(path).is_relative()
                                   ? fmt::format(
                                         "no such folder; looked for it from {}, as "
                                         "relative paths start at the working directory",
                                         fs::current_path().string())
                                   : std::string("no such folder");
    throw DataError(path, -1, looked,
                    fmt::format("run from the folder that the path is relative to, or make the "
                                "database first, e.g. with {}",
                                kHowToMakeADatabase));
  }
  if (error) {
    throw DataError(path, -1, fmt::format("cannot be reached: {}", error.message()),
                    "check the path and its permissions");
  }
  if (status.type() != fs::file_type::directory) {
    throw DataError(path, -1,
                    fmt::format("this is a file; {} is a folder that holds {}", kind, file),
                    "give the path of the folder");
  }
  if (!fs::exists(fs::path(path) / file, error)) {
    throw DataError(
        path, -1, fmt::format("not {}: the folder holds no {}", kind, file),
        fmt::format("check the path and the backend, or make the database, e.g. with {}",
                    kHowToMakeADatabase));
  }
}

PendingFolder::PendingFolder(const std::string& path)
    : path_(WithoutTrailingSlash(path)), temporary_(fmt::format("{}.tmp.{}", path_, getpid())) {
  RefuseExisting();
  std::error_code error;
  fs::create_directories(fs::path(path_).parent_path(), error);  // may have no parent
  if (!fs::create_directory(temporary_, error)) {
    throw DataError(path_, -1,
                    fmt::format("the folder {} cannot be made: {}", temporary_,
                                error ? error.message() : "it exists"),
                    error ? "choose a place that you may write to" : "remove it");
  }
}

PendingFolder::~PendingFolder() {
  if (committed_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void PendingFolder::Commit() {
  SyncFolder(temporary_);
  RefuseExisting();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    throw DataError(path_, -1, fmt::format("writing failed: {}", std::strerror(errno)),
                    "check the path and its permissions");
  }
  committed_ = true;
  SyncFolder(fs::path(path_).parent_path());
}

void PendingFolder::RefuseExisting() const {
  std::error_code error;
  if (fs::symlink_status(path_, error).type() == fs::file_type::not_found) return;
  throw DataError(path_, -1, "exists already", "remove it, or choose another name");
}

}  // namespace carafe
