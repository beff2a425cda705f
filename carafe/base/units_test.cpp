#include "carafe/base/units.h"

#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

TEST(Units, BandwidthIsInBitsOrBytes) {
  EXPECT_DOUBLE_EQ(ParseBandwidth("10gbit", "--bandwidth"), 1.25e9);
  EXPECT_DOUBLE_EQ(ParseBandwidth("10 Gbit/s", "--bandwidth"), 1.25e9);
  EXPECT_DOUBLE_EQ(ParseBandwidth("100mbit", "--bandwidth"), 1.25e7);
  EXPECT_DOUBLE_EQ(ParseBandwidth("8kbit", "--bandwidth"), 1000);
  EXPECT_DOUBLE_EQ(ParseBandwidth("1.1GB", "--bandwidth"), 1.1e9);
  EXPECT_DOUBLE_EQ(ParseBandwidth(".5mb/s", "--bandwidth"), 5e5);
}

TEST(Units, DurationIsInSeconds) {
  EXPECT_DOUBLE_EQ(ParseDuration("20us", "--latency"), 20e-6);
  EXPECT_DOUBLE_EQ(ParseDuration("0.5ms", "--latency"), 5e-4);
  EXPECT_DOUBLE_EQ(ParseDuration("0s", "--latency"), 0);
}

TEST(Units, RefusesAllElseWithAnExample) {
  for (const char* text :
       {"", "10", "gbit", "10furlong", "-1gbit", "0gbit", "nan", "1e999gbit", "10gbit extra", "0x"})
    EXPECT_EQ(ErrorText<ConfigError>([&] { ParseBandwidth(text, "--bandwidth"); }),
              std::string("error: --bandwidth is \"") + text +
                  "\"\n  fix: write a number above 0 and a unit: bits in gbit or mbit, bytes in GB "
                  "or MB, e.g. 10gbit or 1.1GB");
  for (const char* text : {"", "20", "us", "-1us", "20gbit"})
    EXPECT_EQ(ErrorText<ConfigError>([&] { ParseDuration(text, "--latency"); }),
              std::string("error: --latency is \"") + text +
                  "\"\n  fix: write a number and a unit, ns, us, ms or s, e.g. 20us");
}

}  // namespace
}  // namespace carafe
