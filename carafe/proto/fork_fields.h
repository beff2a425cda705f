// Fields of text files that only a fork of Caffe knows. Those that change nothing here are left out
// with a line in the log; the others are refused with the fork's name and what to do instead.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace carafe {

struct ForkField {
  std::string_view message;  // e.g. "SolverParameter"; empty: any that has the field
  std::string_view field;
  std::string_view fork;
  bool left_out;           // or refused
  std::string_view value;  // left out only if it is this; empty: whatever it is
  std::string_view note;   // why it may be left out, or what to do
  bool braces = false;     // its value is a message
};

// Null if no fork is known to have it.
const ForkField* FindForkField(std::string_view message, std::string_view field);

// The same for a value that only a fork's enumeration has, e.g. engine: MKL2017.
const ForkField* FindForkValue(std::string_view field, std::string_view value);

// Puts blanks over every `field: value` in the text of a `root` that may be left out, so that all
// else keeps its place. Returns whether any was there.
bool BlankOut(const ForkField& field, const google::protobuf::Descriptor& root, std::string* text);

}  // namespace carafe
