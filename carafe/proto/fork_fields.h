// Fields of text files that only a fork of Caffe knows. Those that change nothing here are left out
// with a word in the log; the others are refused with the fork's name and what to do instead.
#pragma once

#include <string>
#include <string_view>

namespace carafe {

struct ForkField {
  std::string_view message;  // e.g. "SolverParameter"
  std::string_view field;
  std::string_view fork;
  bool left_out;           // or refused
  std::string_view value;  // left out only if it is this; empty: whatever it is
  std::string_view note;   // why it may be left out, or what to do
};

// Null if no fork is known to have it.
const ForkField* FindForkField(std::string_view message, std::string_view field);

// Puts blanks over every `field: value` in the text that may be left out, so that all else keeps
// its place. Returns whether any was there.
bool BlankOut(const ForkField& field, std::string* text);

}  // namespace carafe
