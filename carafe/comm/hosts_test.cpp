#include "carafe/comm/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Hosts = std::vector<HostSlots>;

std::string ErrorOf(const std::string& text) {
  try {
    ParseHostFile(text, "hosts");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

struct Form {
  const char* name;
  const char* text;
  Hosts expected;
};

class HostFileForms : public ::testing::TestWithParam<Form> {};

TEST_P(HostFileForms, AreRead) {
  EXPECT_EQ(ParseHostFile(GetParam().text, "hosts"), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, HostFileForms,
    ::testing::Values(
        Form{"Names", "node1\nnode2\n", Hosts{{"node1", 1}, {"node2", 1}}},
        Form{"RepeatedNames", "n1\nn1\nn2\n", Hosts{{"n1", 2}, {"n2", 1}}},
        Form{"Colons", "10.0.0.1:4\n10.0.0.2:5", Hosts{{"10.0.0.1", 4}, {"10.0.0.2", 5}}},
        Form{"Slots", "a slots=2 max_slots=4\nb   slots=1\n", Hosts{{"a", 2}, {"b", 1}}},
        Form{"IdsAndPorts", "1 10.0.0.2 9999\n0 10.0.0.1 9999\n2 10.0.0.1 10999\n\n",
             Hosts{{"10.0.0.1", 2}, {"10.0.0.2", 1}}},
        Form{"CommentsAndBlankLines", "# all\n\n  a:2 # big\n\t\r\nb\r\n",
             Hosts{{"a", 2}, {"b", 1}}},
        Form{"AddressesOfSix", "fe80::1\n[fe80::2]:3\n", Hosts{{"fe80::1", 1}, {"[fe80::2]", 3}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HostFile, NamesTheLineOfAMistake) {
  EXPECT_THAT(ErrorOf("a\nb:x\n"), AllOf(HasSubstr("hosts:2"), HasSubstr("\"x\"")));
  EXPECT_THAT(ErrorOf("a slots=0"), AllOf(HasSubstr("hosts:1"), HasSubstr("1 to 4096")));
  EXPECT_THAT(ErrorOf("a b c d"), AllOf(HasSubstr("hosts:1"), HasSubstr("not understood")));
  EXPECT_THAT(ErrorOf("0 10.0.0.1 9999\nnode2"), HasSubstr("mixed"));
  EXPECT_THAT(ErrorOf("0 h 1\n0 g 1\n"), AllOf(HasSubstr("hosts:2"), HasSubstr("twice")));
  EXPECT_THAT(ErrorOf("0 h 1\n2 g 1\n"), HasSubstr("no line with id 1"));
  EXPECT_THAT(ErrorOf("-oProxyCommand=x"), HasSubstr("no host name"));
  EXPECT_THAT(ErrorOf("# nobody\n"), HasSubstr("names no host"));
  EXPECT_THROW(ReadHostFile("/nowhere/hosts"), ConfigError);
}

TEST(HostList, IsSplitAtCommas) {
  EXPECT_THAT(ParseHostList("a:2,b"), ElementsAre(HostSlots{"a", 2}, HostSlots{"b", 1}));
  EXPECT_THROW(ParseHostList("a,,b"), ConfigError);
  EXPECT_THROW(ParseHostList(""), ConfigError);
}

TEST(HostFile, IsWrittenInTheFormOfEachMpi) {
  const Hosts hosts = {{"a", 2}, {"b", 1}};
  EXPECT_EQ(HostFileText(hosts, "openmpi"), "a slots=2\nb slots=1\n");
  EXPECT_EQ(HostFileText(hosts, "mpich"), "a:2\nb:1\n");
  EXPECT_EQ(TotalSlots(hosts), 3);
}

}  // namespace
}  // namespace carafe
