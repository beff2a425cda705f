// Texts from files and from other ranks, made safe to print.
#pragma once

#include <string>
#include <string_view>

namespace carafe {

// Control bytes other than newline and tab become \xNN: a terminal obeys them, and a NUL byte would
// end a C string.
std::string ShowControlBytes(std::string_view text);

}  // namespace carafe
