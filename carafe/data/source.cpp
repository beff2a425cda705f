#include "carafe/data/source.h"

namespace carafe {

std::unique_ptr<Source> OpenSource(const DataParameter& param, const SettingsOwner& owner) {
  owner.Check(!param.source().empty(), "data_param.source", "source is missing",
              "give the path of the database, e.g. source: \"examples/mnist/mnist_train_lmdb\"");
  switch (param.backend()) {
    case DataParameter::LMDB:
      return OpenLmdb(param.source());
    case DataParameter::LEVELDB:
      break;
  }
  owner.Fail("data_param.backend",
             param.has_backend() ? "this build cannot read LevelDB databases"
                                 : "backend is missing, which means LEVELDB, and this build cannot "
                                   "read LevelDB databases",
             "use an LMDB database and write backend: LMDB");
}

}  // namespace carafe
