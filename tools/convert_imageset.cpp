// carafe convert_imageset: a list of picture files becomes a database, as Caffe's tool of that name
// makes it.
#include <fmt/format.h>

#include <memory>

#include "carafe/base/timer.h"
#include "carafe/data/imageset.h"
#include "tools/command.h"

namespace carafe {
namespace {

int Convert(const ImagesetOptions& options) {
  const Timer timer;
  const ImagesetResult result = ConvertImageset(options);
  const std::string skipped =
      result.skipped > 0 ? fmt::format(", {} pictures skipped (see above)", result.skipped) : "";
  fmt::print("{}: {} records in {:.1f} s{}\n", options.database, result.written, timer.Seconds(),
             skipped);
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "convert_imageset",
     .summary = "Make a database of the pictures that a list names.",
     .examples =
         "  carafe convert_imageset --resize_height=256 --resize_width=256 --shuffle pictures/ "
         "train.txt train_lmdb",
     .prepare = [](CLI::App& app) {
       auto options = std::make_shared<ImagesetOptions>();
       app.add_option("root", options->root, "put before each path of the list, e.g. a folder/")
           ->required();
       app.add_option("list", options->list, "text file with lines \"path label\"")->required();
       app.add_option("database", options->database, "the folder to write")->required();
       app.add_flag("--gray", options->gray, "one channel instead of three");
       app.add_flag("--shuffle", options->shuffle, "write in random order");
       app.add_option("--seed", options->seed, "another seed, another order of --shuffle")
           ->capture_default_str();
       app.add_option("--backend", options->backend, "lmdb or leveldb")->capture_default_str();
       app.add_option("--resize_width", options->resize_width, "scale to this width")
           ->capture_default_str();
       app.add_option("--resize_height", options->resize_height, "scale to this height")
           ->capture_default_str();
       app.add_flag("--check_size", options->check_size, "refuse pictures of different sizes");
       app.add_flag("--encoded", options->encoded, "keep pictures as files instead of pixels");
       app.add_option("--encode_type", options->encode_type,
                      "jpg, jpeg or png; else as each file's name says");
       return [options] { return Convert(*options); };
     }}};

}  // namespace
}  // namespace carafe
