#include "carafe/data/mean_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/data/datum.h"
#include "carafe/proto/messages.h"

namespace carafe {

MeanImage ReadMeanFile(const std::string& path) {
  BlobProto blob;
  if (!blob.ParseFromString(ReadFile(path))) {
    throw DataError(path, -1, "not a mean file: the bytes are no BlobProto",
                    "make it again with compute_image_mean");
  }
  int64_t dims[4] = {blob.num(), blob.channels(), blob.height(), blob.width()};
  if (blob.has_shape()) {  // aligned at the end: (c, h, w) and (1, c, h, w) mean the same
    std::fill(dims, dims + 4, 1);
    const int axes = blob.shape().dim_size();
    for (int i = 0; i < std::min(axes, 4); ++i) dims[3 - i] = blob.shape().dim(axes - 1 - i);
  }
  MeanImage mean;
  if (blob.double_data_size() > 0) {
    mean.values.assign(blob.double_data().begin(), blob.double_data().end());
  } else {
    mean.values.assign(blob.data().begin(), blob.data().end());
  }
  const std::string says = fmt::format("{}x{}x{}x{}", dims[0], dims[1], dims[2], dims[3]);
  bool fits = dims[0] == 1;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    fits = fits && dim > 0 && !__builtin_mul_overflow(count, dim, &count);
  }
  if (!fits || count != static_cast<int64_t>(mean.values.size())) {
    throw DataError(
        path, -1,
        fmt::format("not a mean file: it says {} but holds {} values", says, mean.values.size()),
        "make it again with compute_image_mean");
  }
  mean.channels = dims[1];
  mean.height = dims[2];
  mean.width = dims[3];
  return mean;
}

void WriteMeanFile(const MeanImage& mean, const std::string& path) {
  BlobProto blob;
  blob.set_num(1);
  blob.set_channels(static_cast<int>(mean.channels));
  blob.set_height(static_cast<int>(mean.height));
  blob.set_width(static_cast<int>(mean.width));
  blob.mutable_data()->Assign(mean.values.begin(), mean.values.end());
  WriteFileAtomically(path, blob.SerializeAsString());
}

MeanImage ComputeMean(const Database& database) {
  constexpr int64_t kRecordsBetweenReports = 10000;
  Datum storage;
  DatumView first = ReadDatum(database, 0, &storage);
  first.bytes = {};
  first.floats = {};  // the storage is used again; the size stays
  std::vector<double> sums(static_cast<size_t>(first.count()));
  const int64_t records = database.size();
  for (int64_t i = 0; i < records; ++i) {
    const DatumView image = ReadDatum(database, i, &storage);
    if (!image.SameSize(first)) {
      throw DataError(database.name(), i,
                      fmt::format("(key \"{}\") is {} but the first record is {}",
                                  database.Read(i).key, image.SizeText(), first.SizeText()),
                      "a mean needs images of one size; make the database with resize_height "
                      "and resize_width");
    }
    if (image.floats.empty()) {
      for (size_t k = 0; k < sums.size(); ++k) sums[k] += image.bytes[k];
    } else {
      for (size_t k = 0; k < sums.size(); ++k) sums[k] += image.floats[k];
    }
    if ((i + 1) % kRecordsBetweenReports == 0)
      LogInfo("Processed {} of {} records.", i + 1, records);
  }
  MeanImage mean{first.channels, first.height, first.width, {}};
  mean.values.reserve(sums.size());
  // Sums of bytes are whole numbers, up to 2^24 exact in a float too: then this is Caffe's value.
  for (const double sum : sums) {
    mean.values.push_back(static_cast<float>(sum) / static_cast<float>(records));
  }
  return mean;
}

}  // namespace carafe
