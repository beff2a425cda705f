#include "carafe/base/control_bytes.h"

#include <fmt/format.h>

#include <algorithm>

namespace carafe {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
}

}  // namespace

std::string ShowControlBytes(std::string_view text) {
  if (std::ranges::none_of(text, IsControl)) return std::string(text);
  std::string printable;
  for (const char c : text) {
    if (IsControl(c)) {
      printable += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      printable += c;
    }
  }
  return printable;
}

}  // namespace carafe
