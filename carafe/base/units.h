// Numbers with units, as users write them on command lines.
#pragma once

#include <string>

namespace carafe {

// "10gbit", "100mbit", "1.1GB": bytes per second. Bits in gbit, mbit and kbit, bytes in GB, MB and
// KB, all of powers of 1000; upper or lower case; "/s" may follow. Throws ConfigError that names
// `flag` and says what can be written.
double ParseBandwidth(const std::string& text, const std::string& flag);

// "20us", "0.5ms", "1s": seconds, at least 0. Throws ConfigError.
double ParseDuration(const std::string& text, const std::string& flag);

}  // namespace carafe
