// carafe digits: writes the embedded data set.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/timer.h"
#include "carafe/data/digits.h"
#include "tools/command.h"

namespace carafe {
namespace {

int Digits(const DigitsOptions& options) {
  const Timer timer;
  WriteDigits(options);
  fmt::print("{}/digits_train_lmdb: {} images, {}/digits_test_lmdb: {} images, in {:.1f} s\n",
             options.out, options.train, options.out, options.test, timer.Seconds());
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "digits",
     .summary = "Write the embedded data set of drawn digits as LMDB.",
     .examples = "  carafe digits --out examples/digits",
     .prepare = [](CLI::App& app) {
       auto options = std::make_shared<DigitsOptions>();
       app.add_option("--out", options->out, "folder for the two databases")->required();
       app.add_option("--seed", options->seed, "another seed, other pictures")
           ->capture_default_str();
       app.add_option("--train", options->train, "training images")->capture_default_str();
       app.add_option("--test", options->test, "test images")->capture_default_str();
       return [options] { return Digits(*options); };
     }}};

}  // namespace
}  // namespace carafe
