#include "carafe/data/database.h"

#include <fmt/format.h>

#include "carafe/base/error.h"

namespace carafe {

std::unique_ptr<Database> OpenDatabase(const DataParameter& param,
                                       const SettingsLocation& location) {
  location.Check(!param.source().empty(), "data_param.source", "source is missing",
                 "give the path of the database, e.g. source: \"examples/mnist/mnist_train_lmdb\"");
  switch (param.backend()) {
    case DataParameter::LMDB:
      return OpenLmdb(param.source());
    case DataParameter::LEVELDB:
      break;  // also what a missing backend means
  }
  return OpenLevelDb(param.source());
}

std::unique_ptr<Database> OpenDatabase(const std::string& backend, const std::string& path) {
  if (backend == "lmdb") return OpenLmdb(path);
  if (backend == "leveldb") return OpenLevelDb(path);
  throw ConfigError(fmt::format("the backend \"{}\" is unknown", backend), "use lmdb or leveldb");
}

}  // namespace carafe
