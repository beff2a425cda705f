// The embedded data set: handwritten-looking digits drawn by a seeded generator, so that everything
// can be tried without a download.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace carafe {

constexpr int kDigitSide = 28;
using DigitImage = std::array<uint8_t, kDigitSide * kDigitSide>;  // 0 paper .. 255 ink, row by row

// One picture of `digit` (0..9); style, shape, place, pen and noise follow from the key.
DigitImage DrawDigit(int digit, uint64_t key);

struct DigitsOptions {
  std::string out;  // a folder; made if missing
  uint64_t seed = 1;
  int64_t train = 12000;
  int64_t test = 2000;
};

// Writes OUT/digits_train_lmdb and OUT/digits_test_lmdb: Datum records of 1x28x28 bytes under the
// keys 00000000, 00000001, ...; all classes equally often, in random order; the same bytes for the
// same seed. Throws ConfigError for a count below 1, DataError where it cannot write or a database
// is there already; leaves neither database then.
void WriteDigits(const DigitsOptions& options);

}  // namespace carafe
