#include "carafe/data/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "carafe/data/database.h"
#include "carafe/data/datum.h"
#include "carafe/data/glyphs.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

TEST(Digits, PictureFollowsFromItsKeyAlone) {
  EXPECT_EQ(DrawDigit(3, 17), DrawDigit(3, 17));
  EXPECT_NE(DrawDigit(3, 17), DrawDigit(3, 18));
  EXPECT_NE(DrawDigit(3, 17), DrawDigit(5, 17));
}

TEST(Digits, EveryPictureHasInkAndPaper) {
  for (int digit = 0; digit < 10; ++digit) {
    for (uint64_t i = 0; i < 50; ++i) {
      const DigitImage image = DrawDigit(digit, MixSeed(i, 1));
      const auto inked = std::count_if(image.begin(), image.end(), [](int v) { return v > 80; });
      EXPECT_GT(inked, 12) << digit;
      EXPECT_LT(inked, 400) << digit;
    }
  }
}

TEST(Digits, StrokesPassThroughTheirPoints) {
  for (const Stroke::Kind kind : {Stroke::kLines, Stroke::kCurve, Stroke::kClosed}) {
    const Stroke stroke{kind, {{0, 0}, {1, .2}, {.5, 1}}};
    const std::vector<Point> trace = TracePoints(stroke);
    for (const Point& point : stroke.points) {
      const bool passes = std::any_of(trace.begin(), trace.end(), [&](const Point& p) {
        return std::abs(p.x - point.x) < 1e-12 && std::abs(p.y - point.y) < 1e-12;
      });
      EXPECT_TRUE(passes);
    }
    const Point& end = trace.back();
    EXPECT_NEAR(end.y, kind == Stroke::kClosed ? 0 : 1, 1e-12);
  }
}

TEST(Digits, WritesBalancedShuffledDatabases) {
  const TestFolder folder;
  WriteDigits({.out = folder / "out", .seed = 1, .train = 200, .test = 50});
  const auto train = OpenLmdb(folder / "out/digits_train_lmdb");
  const auto test = OpenLmdb(folder / "out/digits_test_lmdb");
  ASSERT_EQ(train->size(), 200);
  ASSERT_EQ(test->size(), 50);
  EXPECT_EQ(train->Read(7).key, "00000007");
  std::vector<int> count(10), labels;
  std::set<std::string> pictures;
  Datum storage;
  for (int64_t i = 0; i < 200; ++i) {
    const DatumView view = ReadDatum(*train, i, &storage);
    EXPECT_EQ(view.SizeText(), "1x28x28");
    ++count.at(static_cast<size_t>(view.label));
    labels.push_back(view.label);
    pictures.insert(storage.data());
  }
  for (int64_t i = 0; i < 50; ++i) {
    ReadDatum(*test, i, &storage);
    pictures.insert(storage.data());
  }
  EXPECT_EQ(count, std::vector<int>(10, 20));
  EXPECT_EQ(pictures.size(), 250u);
  const auto ordered = [&](size_t i) { return labels[i] == static_cast<int>(i % 10); };
  int in_order = 0;
  for (size_t i = 0; i < labels.size(); ++i) in_order += ordered(i);
  EXPECT_LT(in_order, 60);
}

TEST(Digits, TheSameSeedGivesTheSameRecords) {
  const TestFolder folder;
  for (const auto& [name, seed] : {std::pair("a", 4), {"b", 4}, {"c", 5}}) {
    WriteDigits(
        {.out = folder / name, .seed = static_cast<uint64_t>(seed), .train = 20, .test = 5});
  }
  const auto values = [&](const std::string& name) {
    const auto source = OpenLmdb(folder / (name + "/digits_train_lmdb"));
    std::vector<std::string> all;
    for (int64_t i = 0; i < source->size(); ++i) all.emplace_back(source->Read(i).value);
    return all;
  };
  EXPECT_EQ(values("a"), values("b"));
  EXPECT_NE(values("a"), values("c"));
}

TEST(Digits, RefusesExistingDatabasesAndEmptySets) {
  const TestFolder folder;
  fs::create_directories(folder / "out/digits_test_lmdb");
  EXPECT_EQ(
      ErrorText<DataError>([&] { WriteDigits({.out = folder / "out", .train = 5, .test = 5}); }),
      (folder / "out/digits_test_lmdb") +
          ": error: exists already\n  fix: remove it, or choose another name");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder / "out"), fs::directory_iterator()), 1);
  EXPECT_EQ(ErrorText<ConfigError>([&] { WriteDigits({.out = folder / "x", .test = 0}); }),
            "error: digits: 0 images for test\n  fix: ask for 1 image or more");
  EXPECT_FALSE(fs::exists(folder / "x"));
}

}  // namespace
}  // namespace carafe
