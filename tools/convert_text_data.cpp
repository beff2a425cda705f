// carafe convert_text_data: a text becomes two databases of characters, for recurrent nets.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/text_data.h"
#include "tools/command.h"

namespace carafe {
namespace {

struct TextFlags {
  std::string text, train, test;
  double test_share = 0.1;
  TextLayout layout;
};

int Convert(const TextFlags& flags) {
  if (!(flags.test_share > 0 && flags.test_share < 1)) {
    throw ConfigError(fmt::format("--test_share is {}", flags.test_share),
                      "give a number between 0 and 1");
  }
  const std::string text = ReadFile(flags.text);
  const size_t cut = static_cast<size_t>(static_cast<double>(text.size()) * (1 - flags.test_share));
  const std::string_view whole = text, train = whole.substr(0, cut), test = whole.substr(cut);
  for (const auto& [part, database] : {std::pair{train, flags.train}, {test, flags.test}}) {
    const int64_t records = WriteTextDatabase(part, flags.text, flags.layout, database);
    fmt::print("{}: {} characters, {} passes of {} x {}\n", database, records,
               records / flags.layout.sequences / flags.layout.steps, flags.layout.steps,
               flags.layout.sequences);
  }
  const double entropy = BigramEntropy(text);
  fmt::print("bigram entropy of the text: {:.4f} nats ({:.3f} bits) a character\n", entropy,
             entropy / std::log(2.0));
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "convert_text_data",
     .summary = "Make two LMDBs of characters out of a text, for recurrent nets.",
     .examples = "  carafe convert_text_data text.txt text_train_lmdb text_test_lmdb",
     .prepare = [](CLI::App& app) {
       auto flags = std::make_shared<TextFlags>();
       app.add_option("text", flags->text, "ASCII text")->required();
       app.add_option("train", flags->train, "the LMDB to write of its beginning")->required();
       app.add_option("test", flags->test, "the LMDB to write of its end")->required();
       app.add_option("--test_share", flags->test_share, "how much of it is the end")
           ->capture_default_str();
       app.add_option("--sequences", flags->layout.sequences, "stretches read side by side")
           ->capture_default_str();
       app.add_option("--steps", flags->layout.steps, "characters of a stretch in one pass")
           ->capture_default_str();
       return [flags] { return Convert(*flags); };
     }}};

}  // namespace
}  // namespace carafe
