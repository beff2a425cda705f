// The words of a PTX text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace carafe::vgpu::ptx {

struct Token {
  enum Kind { kWord, kDirective, kNumber, kString, kSign, kEnd };
  Kind kind = kEnd;
  std::string_view text;  // of a word with all its dots: "ld.param.u64", "%tid.x"
  int line = 0;
};

// Ends with a token kEnd. The tokens point into the text. `.loc` and `.file` lines are left out.
std::vector<Token> Tokenize(const std::string& name, std::string_view text);

}  // namespace carafe::vgpu::ptx
