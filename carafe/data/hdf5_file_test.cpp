#include "carafe/data/hdf5_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "tests/support/error_text.h"
#include "tests/support/hdf5_samples.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Rows(const Hdf5File& file, const std::string& name, int64_t first, int64_t rows) {
  const Shape shape = file.DatasetShape(name).With(0, rows);
  std::vector<T> values(static_cast<size_t>(shape.Count()));
  file.ReadRows<T>(name, first, rows, values);
  return values;
}

TEST(Hdf5File, ReadsWhatItWrote) {
  const TestFolder folder;
  const std::string path = folder / "a.h5";
  {
    Hdf5File file(path, Hdf5File::Mode::kCreate);
    file.CreateGroup("g");
    file.Write<float>("g/f", {2, 2}, std::vector<float>{1, 2.5f, 3, -4});
    file.Write<double>("d", {}, std::vector<double>{1e-300});
    file.Write<int32_t>("i", {1}, std::vector<int32_t>{-7});
    file.Write<uint64_t>("u", {1}, std::vector<uint64_t>{~uint64_t{0}});
    file.Write<float>("none", {0, 3}, std::vector<float>{});
    file.WriteString("s", "a text");
    file.WriteString("nothing", "");
    file.Close();
  }
  const Hdf5File file(path);
  EXPECT_THAT(file.Members("/"), ElementsAre("d", "g", "i", "none", "nothing", "s", "u"));
  EXPECT_TRUE(file.HasGroup("g"));
  EXPECT_FALSE(file.HasGroup("g/f"));
  EXPECT_TRUE(file.HasDataset("g/f"));
  EXPECT_FALSE(file.HasDataset("g"));
  EXPECT_FALSE(file.HasDataset("h/f"));
  EXPECT_FALSE(file.HasDataset("g/f/x"));
  EXPECT_FALSE(file.HasDataset("g//f"));
  EXPECT_FALSE(file.HasDataset(""));
  EXPECT_EQ(file.DatasetShape("g/f"), (Shape{2, 2}));
  EXPECT_THAT(file.Read<float>("g/f"), ElementsAre(1, 2.5, 3, -4));
  EXPECT_THAT(file.Read<double>("g/f"), ElementsAre(1, 2.5, 3, -4));
  EXPECT_EQ(file.DatasetShape("d"), Shape());
  EXPECT_THAT(file.Read<double>("d"), ElementsAre(1e-300));
  EXPECT_THAT(file.Read<int64_t>("i"), ElementsAre(-7));
  EXPECT_THAT(file.Read<uint64_t>("u"), ElementsAre(~uint64_t{0}));
  EXPECT_EQ(file.DatasetShape("none"), (Shape{0, 3}));
  EXPECT_TRUE(file.Read<float>("none").empty());
  EXPECT_EQ(file.ReadString("s"), "a text");
  EXPECT_EQ(file.ReadString("nothing"), "");
}

TEST(Hdf5File, ReadsNumbersOfAnyKindAndCompression) {
  const TestFolder folder;
  const std::string path = folder / "a.h5";
  const std::vector<double> values = {0, 1, 2, 3, 100, 127};
  int i = 0;
  for (const Stored stored :
       {Stored::kUint8, Stored::kInt16BigEndian, Stored::kInt32, Stored::kInt64, Stored::kFloat16,
        Stored::kFloat32, Stored::kFloat64}) {
    for (const bool gzip : {false, true}) {
      const std::string name = "n" + std::to_string(i++);
      AddHdf5Numbers(path, name, {3, 2}, values, stored, gzip);
      const Hdf5File file(path);
      EXPECT_THAT(file.Read<float>(name), ElementsAre(0, 1, 2, 3, 100, 127)) << name;
      EXPECT_THAT(Rows<double>(file, name, 1, 2), ElementsAre(2, 3, 100, 127)) << name;
      EXPECT_THAT(Rows<double>(file, name, 3, 0), ElementsAre());
    }
  }
  AddHdf5Text(path, "text", "of any length");
  EXPECT_EQ(Hdf5File(path).ReadString("text"), "of any length");
}

TEST(Hdf5File, CountsRowsIn64Bits) {
  const TestFolder folder;
  const int64_t rows = 5'000'000'000;
  AddHdf5Claim(folder / "a.h5", "x", {rows, 1}, {1, 2, 3});
  const Hdf5File file(folder / "a.h5");
  EXPECT_EQ(file.DatasetShape("x"), (Shape{rows, 1}));
  EXPECT_THAT(Rows<float>(file, "x", rows - 4, 4), ElementsAre(0, 1, 2, 3));
}

TEST(Hdf5File, AppendsRows) {
  const TestFolder folder;
  const std::string path = folder / "a.h5";
  for (int i = 0; i < 3; ++i) {
    Hdf5File file(path, i == 0 ? Hdf5File::Mode::kCreate : Hdf5File::Mode::kAppend);
    const std::vector<float> values = {1.f * i, 2.f * i, 3.f * i, 4.f * i};
    file.AppendRows<float>("x", {2, 2}, values);
    file.AppendRows<float>("x", {0, 2}, {});
    file.Close();
  }
  Hdf5File file(path, Hdf5File::Mode::kAppend);
  EXPECT_EQ(file.DatasetShape("x"), (Shape{6, 2}));
  EXPECT_THAT(file.Read<float>("x"), ElementsAre(0, 0, 0, 0, 1, 2, 3, 4, 2, 4, 6, 8));
  EXPECT_THAT(
      ErrorText<DataError>([&] {
        file.AppendRows<float>("x", {1, 3}, std::vector<float>(3));
      }),
      AllOf(HasSubstr("a.h5: error: dataset \"x\" has shape 6 2 (12); rows of shape 1 3 (3) "
                      "cannot follow\n  fix: write rows of one shape")));
}

TEST(Hdf5File, IsKnownByItsContent) {
  const TestFolder folder;
  AddHdf5Numbers(folder / "a.caffemodel", "x", {1}, {1});
  WriteFileAtomically(folder / "b.h5", "no such thing");
  EXPECT_TRUE(IsHdf5(folder / "a.caffemodel"));
  EXPECT_FALSE(IsHdf5(folder / "b.h5"));
  EXPECT_FALSE(IsHdf5(folder / "c.h5"));
  EXPECT_FALSE(IsHdf5(folder / ""));
}

TEST(Hdf5File, SaysWhatIsWrongWithTheFile) {
  const TestFolder folder;
  const auto open = [&](const std::string& name) {
    return ErrorText<DataError>([&] { Hdf5File file(folder / name); });
  };
  EXPECT_THAT(open("none.h5"),
              HasSubstr("none.h5: error: the file cannot be read: No such file or directory\n"
                        "  fix: check the path; it was looked for from "));
  EXPECT_THAT(open(""), HasSubstr("this is a folder, not a file"));
  WriteFileAtomically(folder / "text.h5", "no such thing");
  EXPECT_THAT(open("text.h5"), HasSubstr("text.h5: error: this is not an HDF5 file\n  fix: "));
  WriteFileAtomically(folder / "empty.h5", "");
  EXPECT_THAT(open("empty.h5"), HasSubstr("this is not an HDF5 file"));
  AddHdf5Numbers(folder / "a.h5", "x", {1000}, std::vector<double>(1000, 1));
  const std::string whole = ReadFile(folder / "a.h5");
  WriteFileAtomically(folder / "cut.h5", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(open("cut.h5"),
              AllOf(HasSubstr("cut.h5: error: the HDF5 file cannot be opened: truncated file"),
                    HasSubstr("\n  fix: the file is truncated, damaged or in use")));
  EXPECT_THAT(ErrorText<DataError>(
                  [&] { Hdf5File file(folder / "no/folder.h5", Hdf5File::Mode::kCreate); }),
              HasSubstr("no/folder.h5: error: the file cannot be written: "));
}

TEST(Hdf5File, SaysWhatIsWrongWithTheDataset) {
  const TestFolder folder;
  const std::string path = folder / "a.h5";
  AddHdf5Numbers(path, "x", {2}, {1, 2});
  AddHdf5Strings(path, "names", {3});
  AddHdf5Claim(path, "huge", {4, int64_t{1} << 40});
  AddHdf5Claim(path, "beyond", {int64_t{1} << 61});
  const Hdf5File file(path);
  const auto read = [&](const std::string& name) {
    return ErrorText<DataError>([&] { file.Read<float>(name); });
  };
  EXPECT_THAT(read("y"), HasSubstr("a.h5: error: dataset \"y\" is not in the file\n  fix: "));
  EXPECT_THAT(read("names"),
              HasSubstr("dataset \"names\" holds strings, not numbers\n  fix: store"));
  EXPECT_THAT(read("huge"), HasSubstr("dataset \"huge\" has shape 4 1099511627776 "
                                      "(4398046511104), but the whole file has "));
  EXPECT_THAT(read("beyond"),
              HasSubstr("dataset \"beyond\" has a shape that no memory could hold"));
  EXPECT_THAT(ErrorText<DataError>([&] { file.CheckHolds("huge", int64_t{1} << 40); }),
              HasSubstr("but the whole file has "));
  EXPECT_EQ(ErrorText<DataError>([&] { file.CheckHolds("huge", 4); }), "no error");
  EXPECT_THAT(ErrorText<DataError>([&] { file.ReadString("x"); }),
              HasSubstr("dataset \"x\" is not one string"));
  EXPECT_THAT(ErrorText<DataError>([&] { file.Members("x"); }),
              HasSubstr("group \"x\" cannot be read: "));
}

TEST(Hdf5File, SaysWhenWhatIsStoredIsDamaged) {
  const TestFolder folder;
  std::vector<double> values(2000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * i % 251);
  AddHdf5Numbers(folder / "a.h5", "x", {2000}, values, Stored::kFloat64, /*gzip=*/true);
  std::string bytes = ReadFile(folder / "a.h5");
  for (size_t at = 3000; at < bytes.size(); ++at) bytes[at] = 'X';  // the chunks lie at the end
  WriteFileAtomically(folder / "b.h5", bytes);
  EXPECT_THAT(ErrorText<DataError>([&] { Hdf5File(folder / "b.h5").Read<float>("x"); }),
              AllOf(HasSubstr("b.h5: error: dataset \"x\" "), HasSubstr("\n  fix: ")));
}

// A limit on the size of files stands for a full disk. Exits with 0 if all is as it should be.
[[noreturn]] void WriteToAFullDisk(const std::string& path) {
#ifdef __SANITIZE_ADDRESS__
  __lsan_disable();  // libhdf5 itself loses memory here; all else stays checked
#endif
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {100000, 100000};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string large = ErrorText<DataError>([&] {
    Hdf5File file(path, Hdf5File::Mode::kCreate);
    file.Write<float>("x", {100000}, std::vector<float>(100000, 1));
    file.Close();
  });
  const std::string many = ErrorText<DataError>([&] {
    Hdf5File file(path, Hdf5File::Mode::kCreate);
    for (int i = 0; i < 1000; ++i) {
      file.Write<float>(std::to_string(i), {20}, std::vector<float>(20));
    }
    file.Close();
  });
  const bool good =
      large.find("dataset \"x\" cannot be written: File too large\n  fix: see") !=
          std::string::npos &&
      many.find("File too large\n  fix: see whether the disk is full") != std::string::npos;
  std::fprintf(stderr, "%s\n%s\n", large.c_str(), many.c_str());
  std::exit(good ? 0 : 1);
}

TEST(Hdf5FileDeathTest, SaysWhenTheDiskIsFullAndEndsInOrder) {
  const TestFolder folder;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(WriteToAFullDisk(folder / "a.h5"), ::testing::ExitedWithCode(0), "");
}

TEST(Hdf5File, ServesSeveralThreads) {
  const TestFolder folder;
  std::vector<std::string> paths;
  for (int f = 0; f < 4; ++f) {
    paths.push_back(folder / ("f" + std::to_string(f) + ".h5"));
    AddHdf5Numbers(paths.back(), "x", {100}, std::vector<double>(100, f));
  }
  std::vector<int> good(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Hdf5File file(paths[t]);
        const std::vector<float> values = file.Read<float>("x");
        good[t] += std::ranges::count(values, static_cast<float>(t)) == 100;
        good[t] -= file.HasDataset("nothing");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, ElementsAre(50, 50, 50, 50));
}

}  // namespace
}  // namespace carafe
