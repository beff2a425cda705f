// Errors of the program under test end it, with a message: a virtual GPU that went on would hide
// them, as many a real one does.
#pragma once

#include <string>

namespace carafe::vgpu {

// Prints "virtual GPU: TEXT" and where the host is, then aborts.
[[noreturn]] void Die(const std::string& text);

}  // namespace carafe::vgpu
