#include "carafe/data/text_data.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/data/database_writer.h"
#include "carafe/proto/messages.h"

namespace carafe {
namespace {

void CheckAscii(std::string_view text, const std::string& name) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) < 128) continue;
    throw DataError(name, -1,
                    fmt::format("byte {} is {:#04x}, which is not ASCII", i,
                                static_cast<unsigned char>(text[i])),
                    "give a text of ASCII characters");
  }
}

// Characters of a stretch.
int64_t StretchLength(std::string_view text, const std::string& name, const TextLayout& layout) {
  if (layout.sequences <= 0 || layout.steps <= 0) {
    throw ConfigError(fmt::format("{} sequences of {} steps", layout.sequences, layout.steps),
                      "give at least 1 of both");
  }
  const int64_t predicted = static_cast<int64_t>(text.size()) - 1;  // the last has no next one
  const int64_t length = predicted / layout.sequences / layout.steps * layout.steps;
  if (predicted >= 0 && length > 0) return length;
  throw DataError(name, -1,
                  fmt::format("{} characters are too few for {} sequences of {} steps", text.size(),
                              layout.sequences, layout.steps),
                  "give a longer text, or fewer sequences or steps");
}

}  // namespace

int64_t WriteTextDatabase(std::string_view text, const std::string& name, const TextLayout& layout,
                          const std::string& database) {
  CheckAscii(text, name);
  const int64_t length = StretchLength(text, name, layout);
  const auto writer = NewLmdbWriter(database);
  Datum datum;
  datum.set_channels(2);
  datum.set_height(1);
  datum.set_width(1);
  for (int64_t step = 0; step < length; ++step) {
    for (int64_t n = 0; n < layout.sequences; ++n) {
      const size_t at = static_cast<size_t>(n * length + step);
      const char bytes[] = {text[at], static_cast<char>(step > 0)};
      datum.set_data(bytes, 2);
      datum.set_label(text[at + 1]);
      writer->Put(fmt::format("{:010}", writer->records()), datum.SerializeAsString());
    }
  }
  writer->Finish();
  return length * layout.sequences;
}

double BigramEntropy(std::string_view text) {
  if (text.size() < 2) return 0;
  std::vector<double> pairs(256 * 256, 0.0);
  std::array<double, 256> firsts{};
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const size_t a = static_cast<unsigned char>(text[i]),
                 b = static_cast<unsigned char>(text[i + 1]);
    ++pairs[256 * a + b];
    ++firsts[a];
  }
  double sum = 0;
  for (size_t p = 0; p < pairs.size(); ++p) {
    if (pairs[p] > 0) sum -= pairs[p] * std::log(pairs[p] / firsts[p / 256]);
  }
  return sum / static_cast<double>(text.size() - 1);
}

}  // namespace carafe
