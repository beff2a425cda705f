// carafe compute_image_mean: the mean picture of a database, as Caffe's tool of that name makes it.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/log.h"
#include "carafe/data/mean_file.h"
#include "tools/command.h"

namespace carafe {
namespace {

struct MeanFlags {
  std::string database, out, backend = "lmdb";
};

int Compute(const MeanFlags& flags) {
  const MeanImage mean = ComputeMean(*OpenDatabase(flags.backend, flags.database));
  if (!flags.out.empty()) {
    LogInfo("Write to {}", flags.out);
    WriteMeanFile(mean, flags.out);
  }
  LogInfo("Number of channels: {}", mean.channels);
  const auto area = static_cast<size_t>(mean.height * mean.width);
  for (size_t c = 0; c < static_cast<size_t>(mean.channels); ++c) {
    double sum = 0;
    for (size_t i = 0; i < area; ++i) sum += mean.values[c * area + i];
    LogInfo("mean_value channel [{}]: {:.6g}", c, sum / static_cast<double>(area));
  }
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "compute_image_mean",
     .summary = "Compute the mean picture of a database.",
     .examples = "  carafe compute_image_mean examples/cifar10/cifar10_train_lmdb mean.binaryproto",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<MeanFlags>();
       app.add_option("database", flags->database, "the database")->required();
       app.add_option("out", flags->out,
                      "the mean file to write; if omitted, the mean is only logged");
       // PMLS-Caffe's scripts give it without the name.
       app.add_option("backend,--backend", flags->backend, "lmdb or leveldb")
           ->capture_default_str();
       return [flags] { return Compute(*flags); };
     }}};

}  // namespace
}  // namespace carafe
