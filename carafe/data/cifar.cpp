#include "carafe/data/cifar.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/data/database_writer.h"
#include "carafe/proto/messages.h"

namespace carafe {
namespace {

constexpr int kSide = 32, kChannels = 3;
constexpr size_t kPixels = kSide * kSide * kChannels;
constexpr size_t kRecord = 1 + kPixels;  // label, then pixels
constexpr int kClasses = 10;

void AddFile(const std::string& path, DatabaseWriter* writer) {
  const std::string content = ReadFile(path);
  if (content.empty() || content.size() % kRecord != 0) {
    throw DataError(
        path, -1,
        fmt::format("the file has {} bytes, which is not a whole number of records of "
                    "{} bytes",
                    content.size(), kRecord),
        "use the binary version of CIFAR-10 (cifar-10-binary.tar.gz), and get it again");
  }
  Datum datum;
  datum.set_channels(kChannels);
  datum.set_height(kSide);
  datum.set_width(kSide);
  for (size_t at = 0; at < content.size(); at += kRecord) {
    const int label = static_cast<uint8_t>(content[at]);
    if (label >= kClasses) {
      throw DataError(path, static_cast<int64_t>(at / kRecord),
                      fmt::format("has the label {}; CIFAR-10 has 0 to 9", label),
                      "use the binary version of CIFAR-10, not of CIFAR-100");
    }
    datum.set_label(label);
    datum.set_data(content.data() + at + 1, kPixels);
    writer->Put(fmt::format("{:05d}", writer->records()), datum.SerializeAsString());
  }
  LogInfo("{}: {} records so far", path, writer->records());
}

int64_t Convert(const std::vector<std::string>& files, const std::string& backend,
                const std::string& database) {
  const std::unique_ptr<DatabaseWriter> writer = NewDatabaseWriter(backend, database);
  for (const std::string& file : files) AddFile(file, writer.get());
  writer->Finish();
  return writer->records();
}

}  // namespace

CifarResult ConvertCifar(const std::string& input, const std::string& output,
                         const std::string& backend) {
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) train.push_back(fmt::format("{}/data_batch_{}.bin", input, i));
  CifarResult result;
  result.train = Convert(train, backend, fmt::format("{}/cifar10_train_{}", output, backend));
  result.test = Convert({input + "/test_batch.bin"}, backend,
                        fmt::format("{}/cifar10_test_{}", output, backend));
  return result;
}

}  // namespace carafe
