#include "carafe/data/database_writer.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {

std::unique_ptr<DatabaseWriter> NewDatabaseWriter(const std::string& backend,
                                                  const std::string& path) {
  if (backend == "lmdb") return NewLmdbWriter(path);
  if (backend == "leveldb") return NewLevelDbWriter(path);
  throw ConfigError(fmt::format("the backend \"{}\" is unknown", backend), "use lmdb or leveldb");
}

}  // namespace carafe
