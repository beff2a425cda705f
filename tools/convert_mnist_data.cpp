// carafe convert_mnist_data: IDX files of MNIST and its kin become a database, as Caffe's tool of
// that name makes it.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/timer.h"
#include "carafe/data/idx.h"
#include "tools/command.h"

namespace carafe {
namespace {

struct ConvertFlags {
  std::string images, labels, database, backend = "lmdb";
};

int Convert(const ConvertFlags& flags) {
  const Timer timer;
  const int64_t records = ConvertMnist(flags.images, flags.labels, flags.database, flags.backend);
  fmt::print("{}: {} records in {:.1f} s\n", flags.database, records, timer.Seconds());
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "convert_mnist_data",
     .summary = "Make a database of MNIST's IDX files (plain or gzipped).",
     .examples =
         "  carafe convert_mnist_data train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz "
         "mnist_train_lmdb",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<ConvertFlags>();
       app.add_option("images", flags->images, "the file of images")->required();
       app.add_option("labels", flags->labels, "the file of labels")->required();
       app.add_option("database", flags->database, "the folder to write")->required();
       app.add_option("--backend", flags->backend, "lmdb or leveldb")->capture_default_str();
       return [flags] { return Convert(*flags); };
     }}};

}  // namespace
}  // namespace carafe
