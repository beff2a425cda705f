// carafe convert_cifar_data: the binary version of CIFAR-10 becomes two databases, as Caffe's tool
// of that name makes them.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/timer.h"
#include "carafe/data/cifar.h"
#include "tools/command.h"

namespace carafe {
namespace {

struct CifarFlags {
  std::string input, output, backend;
};

int Convert(const CifarFlags& flags) {
  const Timer timer;
  const CifarResult result = ConvertCifar(flags.input, flags.output, flags.backend);
  fmt::print("{}/cifar10_train_{}: {} records, {}/cifar10_test_{}: {} records, in {:.1f} s\n",
             flags.output, flags.backend, result.train, flags.output, flags.backend, result.test,
             timer.Seconds());
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "convert_cifar_data",
     .summary = "Make databases of CIFAR-10's binary files.",
     .examples = "  carafe convert_cifar_data data/cifar10/cifar-10-batches-bin . lmdb",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<CifarFlags>();
       app.add_option("input", flags->input, "folder with data_batch_1.bin .. 5, test_batch.bin")
           ->required();
       app.add_option("output", flags->output, "folder for the two databases")->required();
       app.add_option("backend,--backend", flags->backend, "lmdb or leveldb")->required();
       return [flags] { return Convert(*flags); };
     }}};

}  // namespace
}  // namespace carafe
