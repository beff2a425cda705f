#include "carafe/base/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

enum class Colour { kRed, kGreen };

struct Common {
  int threads = 1;
};
struct Settings : Common {
  std::string file;
  std::optional<std::string> name;
  int64_t rows = 10;
  double share = 0.5;
  double size = 0;
  Colour colour = Colour::kRed;
  std::optional<bool> overlap;
  bool quiet = false;
  std::vector<std::string> stages;
};

const OptionTable<Settings>& Table() {
  using S = Settings;
  static const OptionTable<Common> common(
      {{{.name = "threads", .environment = "CARAFE_TEST_THREADS"},
        option::Integer(&Common::threads, 1, 64)}});
  static const OptionTable<S> table(
      {
          {{.name = "file"}, option::Text(&S::file)},
          {{.name = "name"},
           option::Name(&S::name,
                        [] {
                          return std::vector<std::string>{"a", "bc"};
                        })},
          {{.name = "rows"}, option::Integer(&S::rows, 0)},
          {{.name = "share"}, option::Number(&S::share, 0, 1)},
          {{.name = "size"}, option::Number(&S::size, 1, 64).Or(0, 0, "0 to measure it")},
          {{.name = "colour"},
           option::Choice(&S::colour, {"red", "green"}).Synonym("crimson", "red")},
          {{.name = "overlap"}, option::Choice(&S::overlap, {"off", "on"})},
          {{.name = "quiet"}, option::Switch(&S::quiet)},
          {{.name = "stage"}, option::List(&S::stages)},
      },
      common);
  return table;
}

std::string ErrorOf(const std::string& name, const std::string& text) {
  return ErrorText<ConfigError>([&] { Table().Parse({{name, text}}); });
}

TEST(OptionTable, ParsesEveryType) {
  const Settings s = Table().Parse({{"file", "x"},
                                    {"name", "bc"},
                                    {"rows", "+12"},
                                    {"share", "1e-1"},
                                    {"size", "0"},
                                    {"colour", "green"},
                                    {"overlap", "on"},
                                    {"quiet", "on"},
                                    {"stage", "a,,b"},
                                    {"threads", "64"}});
  EXPECT_EQ(s.file, "x");
  EXPECT_EQ(s.name, "bc");
  EXPECT_EQ(s.rows, 12);
  EXPECT_EQ(s.share, 0.1);
  EXPECT_EQ(s.size, 0);
  EXPECT_EQ(s.colour, Colour::kGreen);
  EXPECT_EQ(s.overlap, true);
  EXPECT_TRUE(s.quiet);
  EXPECT_THAT(s.stages, ElementsAre("a", "b"));
  EXPECT_EQ(s.threads, 64);
  EXPECT_EQ(Table().Parse({{"colour", "crimson"}}).colour, Colour::kRed);
}

TEST(OptionTable, KeepsTheStructsDefaults) {
  const Settings s = Table().Parse({});
  EXPECT_EQ(s.rows, 10);
  EXPECT_FALSE(s.overlap.has_value());
  EXPECT_EQ(Table().row("share").info.default_text, "0.5");
  EXPECT_EQ(Table().row("colour").info.default_text, "red");
  EXPECT_EQ(Table().row("overlap").info.default_text, "");
}

TEST(OptionTable, NamesTheOptionTheValueAndWhatIsAllowed) {
  EXPECT_EQ(ErrorOf("colour", "blue"), "error: --colour is \"blue\"\n  fix: use one of red, green");
  EXPECT_EQ(ErrorOf("colour", "gren"),
            "error: --colour is \"gren\"\n  fix: did you mean \"green\"? Use one of red, green");
  EXPECT_EQ(ErrorOf("threads", "65"), "error: --threads is 65\n  fix: use 1 to 64");
  EXPECT_EQ(ErrorOf("threads", "0"), "error: --threads is 0\n  fix: use 1 to 64");
  EXPECT_EQ(ErrorOf("threads", "two"), "error: --threads is \"two\"\n  fix: use 1 to 64");
  EXPECT_EQ(ErrorOf("threads", "1.5"), "error: --threads is \"1.5\"\n  fix: use 1 to 64");
  EXPECT_EQ(ErrorOf("threads", "99999999999999999999"),
            "error: --threads is 99999999999999999999\n  fix: use 1 to 64");
  EXPECT_EQ(ErrorOf("rows", "-1"), "error: --rows is -1\n  fix: use 0 or more");
  EXPECT_EQ(ErrorOf("share", "nan"), "error: --share is nan\n  fix: use 0 to 1");
  EXPECT_EQ(ErrorOf("share", ""), "error: --share is \"\"\n  fix: use 0 to 1");
  EXPECT_EQ(ErrorOf("size", "0.5"), "error: --size is 0.5\n  fix: use 1 to 64, or 0 to measure it");
}

TEST(OptionTable, ChecksValuesThatWereSetByAProgram) {
  Settings s;
  Table().Check(s);
  s.threads = 1000;
  EXPECT_EQ(ErrorText<ConfigError>([&] { Table().Check(s); }),
            "error: --threads is 1000\n  fix: use 1 to 64");
}

TEST(OptionTable, PointsAtTheFileThatAValueCameFrom) {
  Settings s;
  EXPECT_EQ(ErrorText<ConfigError>([&] {
              Table().row("rows").value.Set(s, "-2", "row_count", {"solver.prototxt", 3, 1});
            }),
            "solver.prototxt:3:1: error: row_count is -2\n  fix: use 0 or more");
}

TEST(OptionTable, TakesTheEnvironmentWhereTheFlagIsNotGiven) {
  const std::vector<OptionInfo> infos = Table().infos();
  EXPECT_EQ(Table().Parse(WithEnvironment(infos, {})).threads, 1);
  setenv("CARAFE_TEST_THREADS", "3", 1);
  EXPECT_EQ(Table().Parse(WithEnvironment(infos, {})).threads, 3);
  EXPECT_EQ(Table().Parse(WithEnvironment(infos, {{"threads", "2"}})).threads, 2);
  unsetenv("CARAFE_TEST_THREADS");
}

TEST(OptionTable, ReadsBackWhatItWrites) {
  for (const auto& [name, text] : GivenOptions{{"rows", "3"},
                                               {"share", "0.25"},
                                               {"colour", "green"},
                                               {"overlap", "off"},
                                               {"stage", "a,b"},
                                               {"name", "bc"}})
    EXPECT_EQ(Table().Get(Table().Parse({{name, text}}), name), text);
  EXPECT_EQ(Table().Get(Settings(), "overlap"), "");
}

}  // namespace
}  // namespace carafe
