#include "carafe/train/features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "carafe/base/error.h"
#include "carafe/data/datum.h"
#include "tests/support/error_text.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNet[] = R"(
layer { name: "data" type: "DummyData" top: "x"
        dummy_data_param { shape { dim: 2 dim: 3 dim: 2 dim: 1 } data_filler { value: 2 } } }
layer { name: "double" type: "Power" bottom: "x" top: "y" power_param { scale: 2 } }
layer { name: "sum" type: "Reduction" bottom: "y" top: "s" reduction_param { axis: 1 } }
)";

class Features : public ::testing::Test {
 protected:
  Features() : net_(ParseNetSpec(kNet, "net"), NetState()) { net_.Initialise(stream_, 1); }
  std::string Path(const char* name) const { return folder_ / name; }
  std::vector<int64_t> Extract(const std::vector<FeatureTarget>& targets) {
    return ExtractFeatures(stream_, net_, targets, 3, "lmdb");
  }

  const TestFolder folder_;
  Stream stream_;
  Net<float> net_;
};

TEST_F(Features, WritesOneRecordPerRow) {
  EXPECT_THAT(Extract({{"y", Path("y")}, {"s", Path("s")}}), ElementsAre(6, 6));
  const std::unique_ptr<Database> source = OpenLmdb(Path("y"));
  EXPECT_EQ(source->size(), 6);
  EXPECT_EQ(source->Read(5).key, "0000000005");
  Datum datum;
  ASSERT_TRUE(datum.ParseFromString(std::string(source->Read(5).value)));
  EXPECT_FALSE(datum.has_label());
  const DatumView view = ReadDatum(*source, 5, &datum);
  EXPECT_EQ(view.SizeText(), "3x2x1");
  EXPECT_THAT(view.floats, ElementsAre(4, 4, 4, 4, 4, 4));
  const std::unique_ptr<Database> sums = OpenLmdb(Path("s"));
  EXPECT_THAT(ReadDatum(*sums, 0, &datum).floats, ElementsAre(24));
}

TEST_F(Features, UnknownBlobLeavesNothing) {
  EXPECT_THAT(ErrorText<ConfigError>([&] {
                Extract({{"y", Path("y")}, {"why", Path("z")}});
              }),
              HasSubstr("the net has no blob \"why\""));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / ""));
}

TEST_F(Features, AnExistingDatabaseIsNotTouched) {
  Extract({{"y", Path("y")}});
  EXPECT_THROW(Extract({{"s", Path("y")}}), DataError);
  EXPECT_EQ(OpenLmdb(Path("y"))->size(), 6);
}

}  // namespace
}  // namespace carafe
