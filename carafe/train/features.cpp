#include "carafe/train/features.h"

#include <fmt/format.h>

#include <memory>

#include "carafe/base/error.h"
#include "carafe/base/suggest.h"
#include "carafe/data/database_writer.h"

namespace carafe {
namespace {

Datum EmptyDatum(const Shape& shape) {
  const int64_t row = shape.Count(1);
  if (row > INT32_MAX) {
    throw ConfigError(fmt::format("a row of {} is too large for a record", shape.ToString()),
                      "extract a smaller blob");
  }
  const bool picture = shape.rank() <= 4;
  Datum datum;
  datum.set_channels(static_cast<int>(picture ? shape.LegacyDim(1) : row));
  datum.set_height(static_cast<int>(picture ? shape.LegacyDim(2) : 1));
  datum.set_width(static_cast<int>(picture ? shape.LegacyDim(3) : 1));
  return datum;
}

class FeatureWriter {
 public:
  FeatureWriter(const Net<float>& net, const FeatureTarget& target, const std::string& backend)
      : writer_(NewDatabaseWriter(backend, target.database)) {
    blob_ = net.FindBlob(target.blob);
    if (blob_ == nullptr) {
      throw ConfigError(fmt::format("the net has no blob \"{}\"", target.blob),
                        DidYouMean(target.blob, net.blob_names()));
    }
  }

  void AddRows(Stream& stream) {
    const Shape& shape = blob_->shape();
    const int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    const int64_t size = rows == 0 ? 0 : shape.Count() / rows;
    const std::vector<float> values = blob_->DataToHost(stream);
    Datum datum = shape.rank() == 0 ? EmptyDatum({1, 1}) : EmptyDatum(shape);
    for (int64_t r = 0; r < rows; ++r) {
      const auto first = values.begin() + r * size;
      datum.mutable_float_data()->Assign(first, first + size);
      writer_->Put(fmt::format("{:010}", writer_->records()), datum.SerializeAsString());
    }
  }

  int64_t records() const { return writer_->records(); }
  void Finish() { writer_->Finish(); }

 private:
  const std::unique_ptr<DatabaseWriter> writer_;
  const Blob<float>* blob_ = nullptr;  // the net's
};

}  // namespace

std::vector<int64_t> ExtractFeatures(Stream& stream, Net<float>& net,
                                     const std::vector<FeatureTarget>& targets, int64_t batches,
                                     const std::string& backend) {
  std::vector<std::unique_ptr<FeatureWriter>> writers;
  for (const FeatureTarget& target : targets) {
    writers.push_back(std::make_unique<FeatureWriter>(net, target, backend));
  }
  std::vector<std::string> seen;
  for (const FeatureTarget& target : targets) seen.push_back(target.blob);
  net.ShareMemory(MemorySharing::kForward, std::make_shared<MemoryPool>(), seen);
  RunContext run{.stream = stream};
  for (; run.pass.index < batches; ++run.pass.index) {
    net.Forward(run);
    for (const auto& writer : writers) writer->AddRows(stream);
  }
  std::vector<int64_t> rows;
  for (const auto& writer : writers) {
    rows.push_back(writer->records());
    writer->Finish();
  }
  return rows;
}

}  // namespace carafe
