#include "carafe/data/database_writer.h"

#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/data/leveldb_writer.h"
#include "carafe/data/lmdb_writer.h"

namespace carafe {

std::unique_ptr<DatabaseWriter> NewDatabaseWriter(const std::string& backend,
                                                  const std::string& path) {
  if (backend == "lmdb") return std::make_unique<LmdbWriter>(path);
  if (backend == "leveldb") return std::make_unique<LevelDbWriter>(path);
  throw ConfigError(fmt::format("the backend \"{}\" is unknown", backend), "use lmdb or leveldb");
}

}  // namespace carafe
