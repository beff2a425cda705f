#include "carafe/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace carafe {
namespace {

using ::testing::StartsWith;

TEST(Error, SaysWhatWhereAndHowToFixIt) {
  const Location where = {"lenet.prototxt", 31, 3};
  EXPECT_STREQ(ConfigError(where, "no outputs", "give num_output").what(),
               "lenet.prototxt:31:3: error: no outputs\n  fix: give num_output");
  EXPECT_STREQ(ConfigError("no outputs", "").what(), "error: no outputs");
  EXPECT_STREQ(DataError("train_lmdb", 7, "broken", "copy it again").what(),
               "train_lmdb: record 7: error: broken\n  fix: copy it again");
  EXPECT_STREQ(DataError("train_lmdb", -1, "broken", "").what(), "train_lmdb: error: broken");
  EXPECT_STREQ(CommError("rank 1 is lost", "").what(), "error: rank 1 is lost");
  EXPECT_STREQ(Error("it is gone", "keep it").what(), "error: it is gone\n  fix: keep it");
  ErrorFields fields =
      ConfigError(where, "layer \"ip1\" (InnerProduct)", "no outputs", "").fields();
  fields.origin = "rank 2 on node7";
  EXPECT_STREQ(ConfigError(fields).what(),
               "rank 2 on node7: lenet.prototxt:31:3: error: layer \"ip1\" (InnerProduct): no "
               "outputs");
  EXPECT_THAT(InternalError("impossible").what(), StartsWith(__FILE__));
}

// Keys of a database are any bytes.
TEST(Error, ShowsControlBytesInsteadOfPrintingThem) {
  const std::string key("a\0b\x1b[2J\x7f\t", 9);
  EXPECT_STREQ(DataError("db", 7, "key " + key + " is bad\nreally", "").what(),
               "db: record 7: error: key a\\x00b\\x1b[2J\\x7f\t is bad\nreally");
}

TEST(Error, KeepsItsFields) {
  const DataError error("train_lmdb", 7, "broken", "copy it again");
  EXPECT_EQ(error.fields().kind, ErrorKind::kData);
  EXPECT_EQ(error.fields().where.file, "train_lmdb");
  EXPECT_EQ(error.fields().where.record, 7);
  EXPECT_EQ(error.fields().what, "broken");
  EXPECT_EQ(error.fields().fix, "copy it again");
  EXPECT_EQ(ConfigError({"a", 1, 2}, "", "").fields().where.column, 2);
}

template <typename Kind>
void ExpectSameAfterTransfer(const Kind& error) {
  try {
    ThrowError(DeserializeError(Serialize(error.fields())));
  } catch (const Kind& copy) {
    EXPECT_STREQ(copy.what(), error.what());
    EXPECT_EQ(Serialize(copy.fields()), Serialize(error.fields()));
    EXPECT_EQ(typeid(copy), typeid(error));
  }
}

TEST(Error, SurvivesATransferWithItsKindAndFields) {
  ExpectSameAfterTransfer(ConfigError({"a.prototxt", 31, 3}, "bad \0 12:x\n", "fix: \n"));
  ExpectSameAfterTransfer(DataError("train_lmdb", 7, "broken", "copy it again"));
  ExpectSameAfterTransfer(CommError("rank 1 is lost", ""));
  ExpectSameAfterTransfer(InternalError("impossible"));
  ExpectSameAfterTransfer(Error("something else"));
  ErrorFields fields = ConfigError({"a", 1, 2}, "the subject", "what", "").fields();
  fields.origin = "rank 1 on b";
  ExpectSameAfterTransfer(ConfigError(fields));
}

TEST(Error, RefusesBytesThatAreNoError) {
  const std::string whole = Serialize(ConfigError("bad", "good").fields());
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW(DeserializeError(whole.substr(0, length)), InternalError) << length;
}

}  // namespace
}  // namespace carafe
