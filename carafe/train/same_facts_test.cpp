#include "carafe/train/same_facts.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "carafe/comm/run_ranks.h"
#include "carafe/data/database_writer.h"
#include "tests/support/drawn_picture.h"
#include "tests/support/error_text.h"
#include "tests/support/hdf5_samples.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CheckSame, LetsEqualFactsPass) {
  RunRanks(3, [](Group& group) {
    CheckSame(group, {{"--solver", "a.prototxt"}, {"--warmup", "5"}}, "do something");
  });
}

TEST(CheckSame, NamesTheFactBothRanksAndBothValuesOnEveryRank) {
  RunRanks(3, [](Group& group) {
    try {
      CheckSame(group,
                {{"--warmup", "5"}, {"--solver", group.rank() == 2 ? "b.prototxt" : "a.prototxt"}},
                "use one solver");
      ADD_FAILURE() << "no error on rank " << group.rank();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(StartsWith("error: --solver differs: a.prototxt on rank 0"),
                        HasSubstr("b.prototxt on rank 2"), HasSubstr("fix: use one solver")));
      group.Fail(error.what());
      EXPECT_TRUE(group.failed_together());
    }
  });
}

TEST(CheckSame, AFactThatOneRankLacksIsADifference) {
  RunRanks(2, [](Group& group) {
    std::vector<NamedFact> facts;
    if (group.rank() == 1) facts.push_back({"--global_batch", "64"});
    try {
      CheckSame(group, facts, "");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("--global_batch differs: nothing on rank 0"),
                                      HasSubstr("64 on rank 1")));
    }
  });
}

std::unique_ptr<Net<float>> Build(const std::string& layers) {
  NetState state;
  state.set_phase(TRAIN);
  return std::make_unique<Net<float>>(ParseNetSpec(layers, "n.prototxt"), state);
}

// What two ranks say whose nets have these layers; "no error" if they agree.
std::string Compare(const std::string& first, const std::string& second) {
  std::vector<std::string> said(2);
  RunRanks(2, [&](Group& group) {
    said[static_cast<size_t>(group.rank())] = ErrorText<Error>([&] {
      const auto net = Build(group.rank() == 0 ? first : second);
      CheckSame(group, {NetFact(*net)}, "same net");
      CheckSame(group, DataFacts(*net), "same data");
    });
  });
  EXPECT_EQ(said[0], said[1]);
  return said[0];
}

std::string DataLayer(const TestFolder& folder, const std::string& name,
                      const std::vector<std::string>& keys) {
  const auto writer = NewLmdbWriter(folder / name);
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1);
  datum.set_width(1);
  datum.set_data("x");
  for (const std::string& key : keys) writer->Put(key, datum.SerializeAsString());
  writer->Finish();
  return fmt::format(
      "layer {{ name: \"d\" type: \"Data\" top: \"x\" data_param {{ source: \"{}\" backend: "
      "LMDB batch_size: 2 }} }}",
      folder / name);
}

TEST(DataFacts, NameCopiesOfADatabaseThatDifferInNumberFirstOrLastKey) {
  const TestFolder folder;
  const std::string one = DataLayer(folder, "one", {"k1", "k2", "k3"});
  EXPECT_EQ(Compare(one, DataLayer(folder, "copy", {"k1", "k2", "k3"})), "no error");
  EXPECT_THAT(
      Compare(one, DataLayer(folder, "first", {"k0", "k2", "k3"})),
      AllOf(HasSubstr("the data of layer \"d\" differs: 3 records, keys \"k1\" to \"k3\" on "
                      "rank 0"),
            HasSubstr("3 records, keys \"k0\" to \"k3\" on rank 1"), HasSubstr("fix: same data")));
  EXPECT_THAT(Compare(one, DataLayer(folder, "last", {"k1", "k2", "k4"})),
              HasSubstr("3 records, keys \"k1\" to \"k4\" on rank 1"));
  EXPECT_THAT(Compare(one, DataLayer(folder, "more", {"k1", "k2", "k25", "k3"})),
              HasSubstr("4 records, keys \"k1\" to \"k3\" on rank 1"));
}

std::string PictureLayer(const TestFolder& folder, const std::string& name,
                         const std::string& lines) {
  WritePng(folder / "a.png", DrawnPicture(2, 2, 3));
  WriteFileAtomically(folder / name, lines);
  return fmt::format(
      "layer {{ name: \"d\" type: \"ImageData\" top: \"x\" top: \"l\" image_data_param {{ source: "
      "\"{}\" root_folder: \"{}\" batch_size: 2 }} }}",
      folder / name, folder / "");
}

TEST(DataFacts, NameListsOfPicturesThatDifferInAnyLine) {
  const TestFolder folder;
  const std::string one = PictureLayer(folder, "one.txt", "a.png 0\nb.png 1\nc.png 2\n");
  EXPECT_EQ(Compare(one, PictureLayer(folder, "copy.txt", "a.png 0\nb.png 1\nc.png 2\n")),
            "no error");
  EXPECT_THAT(Compare(one, PictureLayer(folder, "less.txt", "a.png 0\nc.png 2\n")),
              AllOf(HasSubstr("the data of layer \"d\" differs: 3 lines"), HasSubstr("2 lines")));
  EXPECT_THAT(Compare(one, PictureLayer(folder, "last.txt", "a.png 0\nb.png 1\nd.png 2\n")),
              AllOf(HasSubstr("to \"c.png 2\""), HasSubstr("to \"d.png 2\"")));
  EXPECT_THAT(Compare(one, PictureLayer(folder, "label.txt", "a.png 0\nb.png 7\nc.png 2\n")),
              HasSubstr("the data of layer \"d\" differs: 3 lines, \"a.png 0\" to \"c.png 2\""));
}

std::string Hdf5Layer(const TestFolder& folder, const std::string& name,
                      const std::vector<std::string>& files) {
  std::string list;
  for (const std::string& file : files) list += folder / file + "\n";
  WriteFileAtomically(folder / name, list);
  return fmt::format(
      "layer {{ name: \"d\" type: \"HDF5Data\" top: \"x\" hdf5_data_param {{ source: \"{}\" "
      "batch_size: 2 }} }}",
      folder / name);
}

TEST(DataFacts, NameListsOfHdf5FilesThatDifferInFilesOrRows) {
  const TestFolder folder;
  for (const auto& [name, rows] : {std::pair{"a", 3}, {"b", 2}, {"c", 2}, {"d", 2}})
    AddHdf5Numbers(folder / (std::string(name) + ".h5"), "x", {rows, 1},
                   std::vector<double>(static_cast<size_t>(rows), 1));
  const std::string one = Hdf5Layer(folder, "one.txt", {"a.h5", "b.h5", "d.h5"});
  EXPECT_EQ(Compare(one, Hdf5Layer(folder, "copy.txt", {"a.h5", "b.h5", "d.h5"})), "no error");
  EXPECT_THAT(Compare(one, Hdf5Layer(folder, "less.txt", {"a.h5", "d.h5"})),
              AllOf(HasSubstr("the data of layer \"d\" differs: 7 rows, 3 lines"),
                    HasSubstr("5 rows, 2 lines")));
  EXPECT_THAT(Compare(one, Hdf5Layer(folder, "other.txt", {"a.h5", "c.h5", "d.h5"})),
              HasSubstr("the data of layer \"d\" differs: 7 rows, 3 lines"));
}

TEST(DataFacts, CountTheRowsOfHdf5FilesOfTheSameName) {
  const TestFolder folder;
  AddHdf5Numbers(folder / "a.h5", "x", {3, 1}, {1, 2, 3});
  const std::string layer = Hdf5Layer(folder, "list.txt", {"a.h5"});
  const std::vector<NamedFact> before = DataFacts(*Build(layer));
  std::filesystem::remove(folder / "a.h5");
  AddHdf5Numbers(folder / "a.h5", "x", {4, 1}, {1, 2, 3, 4});
  ASSERT_EQ(before.size(), 1u);
  EXPECT_NE(DataFacts(*Build(layer))[0].value, before[0].value);
}

std::string RawLayer(const TestFolder& folder, const std::string& name, const std::string& type,
                     const std::string& pixels, const std::string& labels) {
  WriteFileAtomically(folder / name, pixels);
  WriteFileAtomically(folder / (name + ".txt"), labels);
  return fmt::format(
      "layer {{ name: \"d\" type: \"{}\" top: \"x\" top: \"l\" {} {{ source: \"{}\" label: "
      "\"{}.txt\" batch_size: 2 new_height: 1 new_width: 2 is_color: false headerSize: 0 }} }}",
      type, type == "ParallelData" ? "parallel_data_param" : "parallel_inmem_data_param",
      folder / name, folder / name);
}

TEST(DataFacts, NameRawFilesThatDifferInSizeContentOrLabels) {
  for (const std::string type : {"ParallelData", "ParallelInMemData"}) {
    const TestFolder folder;
    const std::string one = RawLayer(folder, "one", type, "abcdef", "1\n2\n3\n");
    EXPECT_EQ(Compare(one, RawLayer(folder, "copy", type, "abcdef", "1\n2\n3\n")), "no error");
    EXPECT_THAT(
        Compare(one, RawLayer(folder, "less", type, "abcd", "1\n2\n")),
        AllOf(HasSubstr("the data of layer \"d\" differs: 3 images of 1x1x2"),
              HasSubstr("2 images of 1x1x2"), HasSubstr("on rank 1"), HasSubstr("same data")));
    EXPECT_THAT(Compare(one, RawLayer(folder, "labels", type, "abcdef", "1\n7\n3\n")),
                HasSubstr("the data of layer \"d\" differs: 3 images"));
    EXPECT_THAT(Compare(one, RawLayer(folder, "last", type, "abcdeX", "1\n2\n3\n")),
                HasSubstr("the data of layer \"d\" differs: 3 images"));
  }
}

TEST(NetFact, TellsLayersWithOtherSettingsApartButNotThePlacesOfFiles) {
  const TestFolder folder;
  const std::string data = DataLayer(folder, "one", {"k1", "k2"});
  const auto with = [&](const std::string& ratio) {
    return data +
           " layer { name: \"drop\" type: \"Dropout\" bottom: \"x\" top: \"y\" "
           "dropout_param { dropout_ratio: " +
           ratio + " } }";
  };
  EXPECT_EQ(Compare(with("0.5"), with("0.50")), "no error");
  EXPECT_THAT(Compare(with("0.5"), with("0.4")),
              AllOf(HasSubstr("the content of the training net differs: 2 layers, hash "),
                    HasSubstr("fix: same net")));
}

}  // namespace
}  // namespace carafe
