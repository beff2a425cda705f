#include "carafe/train/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::HasSubstr;

// CaffeNet's shapes, smaller: a convolution, then three fully connected layers.
MachineProfile Profile() {
  const auto full = [](const char* name, int64_t inputs, int64_t outputs) {
    return ProfiledLayer{
        name, "InnerProduct", 2, 4, {{4 * inputs * outputs, {16, outputs, inputs}}, {4 * outputs}}};
  };
  return {.net = "small & <net>",
          .device = "cpu",
          .batch = 16,
          .threads = 1,
          .gflops = 50,
          .update_gb = 4,
          .layers = {{"data", "Data", 1, 0},
                     {"conv", "Convolution", 20, 40, {{400000}}},
                     full("fc6", 920, 400),
                     full("fc7", 400, 400),
                     full("fc8", 400, 100),
                     {"loss", "SoftmaxWithLoss", 0.1, 0.1}}};
}

const ForecastRow& Row(const Forecast& forecast, const std::string& exchange, int ranks) {
  for (const ForecastRow& row : forecast.rows)
    if (row.exchange == exchange && row.ranks == ranks) return row;
  throw InternalError("no such row");
}

TEST(Forecast, HasEveryExchangeAtPowersOfTwoAndAtTheEnd) {
  const Forecast forecast = MakeForecast(Profile(), {.ranks = 6});
  std::vector<std::string> rows;
  for (const ForecastRow& row : forecast.rows)
    rows.push_back(row.exchange + " " + std::to_string(row.ranks));
  std::vector<std::string> expected;
  for (const char* exchange : {"allreduce", "server", "tree", "ssp", "sfb", "auto"})
    for (const char* ranks : {"1", "2", "4", "6"})
      expected.push_back(std::string(exchange) + " " + ranks);
  EXPECT_EQ(rows, expected);
  for (const ForecastRow& row : forecast.rows) {
    EXPECT_EQ(row.source, row.ranks == 1 ? "profile" : "engine");
    EXPECT_NEAR(row.speed_up, row.ranks * row.efficiency, 1e-9);
    EXPECT_LE(row.efficiency, 1.02);  // others may update: 0.6 of 80 ms
    EXPECT_EQ(row.bytes == 0, row.ranks == 1);
  }
}

TEST(Forecast, OneRankTakesTheTimesOfTheProfile) {
  const MachineProfile profile = Profile();
  const Forecast forecast = MakeForecast(profile, {.ranks = 1});
  const double passes = 1e-3 * (1 + 20 + 40 + 3 * (2 + 4) + 0.2);
  EXPECT_NEAR(forecast.one_rank_seconds,
              passes + static_cast<double>(forecast.gradient_bytes) / 4e9, 1e-9);
  ASSERT_EQ(forecast.rows.size(), 6U);
}

// Where the network is the limit factors help, and auto takes them; where it is not, it sums.
TEST(Forecast, AutoIsAsGoodAsTheBetterOfBoth) {
  for (const double bandwidth : {2e7, 1e10}) {
    const Forecast forecast = MakeForecast(Profile(), {.ranks = 8, .bandwidth = bandwidth});
    for (const int ranks : {2, 4, 8}) {
      const double best = std::min(Row(forecast, "allreduce", ranks).step_seconds,
                                   Row(forecast, "sfb", ranks).step_seconds);
      EXPECT_LE(Row(forecast, "auto", ranks).step_seconds, 1.05 * best)
          << bandwidth << ", " << ranks << " ranks";
    }
    EXPECT_EQ(Row(forecast, "auto", 2).plan.empty(), bandwidth == 1e10);
  }
}

TEST(Forecast, ContinuesWithTheCostModelWhereTheEngineTakesTooLong) {
  const Forecast forecast =
      MakeForecast(Profile(), {.ranks = 16, .bandwidth = 2e6, .most_messages = 300});
  EXPECT_EQ(Row(forecast, "sfb", 2).source, "engine");
  const ForecastRow& row = Row(forecast, "sfb", 16);
  EXPECT_EQ(row.source, "model");
  const double factors = 4 * 16 * 15 * (920 + 400 + 400 + 400 + 400 + 100);
  const double sums = 2 * (400000 + 4 * (400 + 400 + 100)) * 15.0 / 16;
  EXPECT_NEAR(static_cast<double>(row.bytes), factors + sums, 1);
  EXPECT_GT(row.step_seconds, Row(forecast, "sfb", 2).step_seconds);
}

TEST(Forecast, StragglersSlowSynchronousExchangesDown) {
  const MachineProfile profile = Profile();
  ForecastSettings settings{.ranks = 4, .bandwidth = 1e10};
  const double without = Row(MakeForecast(profile, settings), "allreduce", 4).step_seconds;
  settings.slow = ParseStragglers("1:2.0", "--slow");
  EXPECT_NEAR(Row(MakeForecast(profile, settings), "allreduce", 4).step_seconds / without, 2, 0.02);
  settings.slow = ParseStragglers("10%:4", "--slow");
  const Forecast chance = MakeForecast(profile, settings);
  EXPECT_GT(Row(chance, "allreduce", 4).step_seconds, 1.3 * without);
  EXPECT_LT(Row(chance, "ssp", 4).step_seconds, Row(chance, "allreduce", 4).step_seconds);
}

TEST(Stragglers, AreSomeRanksAlwaysOrAllRanksSometimes) {
  const std::vector<Stragglers> slow = ParseStragglers("2:3,25%:2", "--slow");
  ASSERT_EQ(slow.size(), 2U);
  int drawn = 0;
  for (int step = 0; step < 1000; ++step) {
    const double first = SlowdownOf(slow, 8, 0, step), last = SlowdownOf(slow, 8, 6, step);
    EXPECT_TRUE(first == 1 || first == 2);
    EXPECT_TRUE(last == 3 || last == 6);
    drawn += first == 2;
  }
  EXPECT_NEAR(drawn, 250, 60);
  for (const char* text : {"1", "1:", ":2", "1:0.5", "0:2", "1.5:2", "101%:2", "1:2x", "x:2"})
    EXPECT_THAT(ErrorText<ConfigError>([&] { ParseStragglers(text, "--slow"); }),
                HasSubstr("is not WHO:FACTOR\n  fix: write a number of ranks"))
        << text;
}

TEST(Forecast, ReportsAreReadable) {
  const MachineProfile profile = Profile();
  const ForecastSettings settings{.ranks = 4, .slow = {{.ranks = 1, .factor = 2}}};
  const Forecast forecast = MakeForecast(profile, settings);
  const auto json = nlohmann::json::parse(ForecastJson(profile, settings, forecast));
  EXPECT_EQ(json["rows"].size(), forecast.rows.size());
  EXPECT_EQ(json["net"], profile.net);
  EXPECT_EQ(json["rows"][1]["bytes"], forecast.rows[1].bytes);
  const std::string table = ForecastTable(profile, settings, forecast);
  EXPECT_THAT(table, HasSubstr("1 rank always 2 times as long"));
  EXPECT_THAT(table, HasSubstr("auto, 4 ranks: "));
  const std::string svg = ForecastSvg(profile, settings, forecast);
  EXPECT_THAT(svg, HasSubstr("small &amp; &lt;net>"));
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
}

class ProfileFileTest : public ::testing::Test {
 protected:
  std::string Refusal(const std::string& old, const std::string& text) const {
    std::string json = ProfileJson(Profile());
    const size_t at = json.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    json.replace(at, old.size(), text);
    WriteFileAtomically(path_, json);
    return ErrorText<DataError>([&] { ReadProfile(path_); });
  }
  const TestFolder folder_;
  const std::string path_ = folder_ / "profile.json";
};

TEST_F(ProfileFileTest, IsReadAsItWasWritten) {
  WriteFileAtomically(path_, ProfileJson(Profile()));
  EXPECT_EQ(ProfileJson(ReadProfile(path_)), ProfileJson(Profile()));
}

TEST_F(ProfileFileTest, SaysWhatIsWrong) {
  EXPECT_THAT(Refusal("{", "x"), HasSubstr("it is not JSON\n  fix: write one: carafe time"));
  EXPECT_THAT(Refusal("carafe profile 1", "carafe profile 9"), HasSubstr("\"format\" is not"));
  EXPECT_THAT(Refusal("\"gemm_gflops\"", "\"gemm\""), HasSubstr("has no \"gemm_gflops\""));
  EXPECT_THAT(Refusal("\"forward_ms\": 20.0", "\"forward_ms\": -1"),
              HasSubstr("\"forward_ms\" of layer conv is no number from 0"));
  EXPECT_THAT(Refusal("\"bytes\": 400000", "\"bytes\": 400001"), HasSubstr("no array of floats"));
  EXPECT_THAT(Refusal("\"inputs\": 920", "\"inputs\": 921"), HasSubstr("are not its bytes"));
  EXPECT_THAT(Refusal("\"layers\": [", "\"layers\": 7, \"others\": ["), HasSubstr("is no list"));
}

}  // namespace
}  // namespace carafe
