// A text as records for recurrent nets: one per character, so that any number of workers can deal
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace carafe {

struct TextLayout {
  int64_t sequences = 16;  // N: stretches of the text that are read side by side
  int64_t steps = 32;      // T: steps of one pass; the stretches are cut to a multiple of it
};

// Cuts the text into N stretches of S characters, S a multiple of T, and writes to an LMDB, for
// step s = 0 .. S-1 and in it for stretch n = 0 .. N-1, a Datum of two bytes and a label:
//   (character, whether the stretch goes on from the step before), next character
// A Data layer with batch_size T*N thus gives rows that reshape to (T, N), in the order of time,
// and the next pass goes on with the same stretches; dealt over P workers, each has N/P stretches
// of its own (P must divide N). Characters are their ASCII codes. Returns the number of records;
// throws DataError for a text that is too short or not ASCII (`name` is for that).
int64_t WriteTextDatabase(std::string_view text, const std::string& name, const TextLayout& layout,
                          const std::string& database);

// The entropy of a character when the one before it is known, in nats: what a net that sees one
// character only can reach on this text. 0 for texts of less than two characters.
double BigramEntropy(std::string_view text);

}  // namespace carafe
