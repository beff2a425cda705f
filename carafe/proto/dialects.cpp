#include "carafe/proto/dialects.h"

#include <fmt/format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/base/log.h"

namespace carafe {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

static_assert(std::endian::native == std::endian::little, "raw_data is stored as on the machine");

// NVCaffe's `Type`.
enum RawType { kDouble = 0, kFloat = 1, kHalf = 2, kInt = 3, kUint = 4 };

const UnknownField* Find(const UnknownFieldSet& fields, int number, UnknownField::Type type) {
  const UnknownField* found = nullptr;  // the last one counts, as for any field
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == type) found = &field;
  }
  return found;
}

const UnknownFieldSet& UnknownsOf(const google::protobuf::Message& message) {
  return message.GetReflection()->GetUnknownFields(message);
}

// IEEE half: 1 bit sign, 5 bits exponent (bias 15), 10 bits fraction.
float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half >> 15) << 31;
  const uint32_t exponent = (half >> 10) & 31, fraction = half & 1023;
  if (exponent == 0) {  // zero and the smallest numbers, fraction x 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// The bytes as numbers of type Raw, each put through `add`.
template <typename Raw, typename Add>
void ForEach(const std::string& bytes, const Add& add) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(Raw)) {
    Raw value;
    std::memcpy(&value, bytes.data() + at, sizeof(Raw));
    add(value);
  }
}

struct BlobPlace {
  const std::string& file;
  std::string what;  // "layer "conv1", parameter 0"
};

// Halves and floats go to `floats`, all else to `doubles`, which hold any of them.
void Unpack(const std::string& bytes, const UnknownField* type, const BlobPlace& place,
            google::protobuf::RepeatedField<float>* floats,
            google::protobuf::RepeatedField<double>* doubles) {
  constexpr int kSizes[] = {8, 4, 2, 4, 4};
  const uint64_t raw = type == nullptr ? UINT64_MAX : type->varint();
  if (raw > kUint || bytes.size() % static_cast<size_t>(kSizes[raw]) != 0) {
    throw DataError(place.file, -1,
                    fmt::format("{}: {} bytes of raw_data, of {}", place.what, bytes.size(),
                                type == nullptr ? "no type" : fmt::format("type {}", raw)),
                    "this is a blob of NVCaffe or Caffe-MPI, and damaged; fetch the file again");
  }
  floats->Clear();
  doubles->Clear();
  const int count = static_cast<int>(bytes.size()) / kSizes[raw];
  if (raw == kFloat || raw == kHalf) {
    floats->Reserve(count);
  } else {
    doubles->Reserve(count);
  }
  switch (static_cast<RawType>(raw)) {
    case kDouble:
      ForEach<double>(bytes, [&](double x) { doubles->Add(x); });
      break;
    case kFloat:
      ForEach<float>(bytes, [&](float x) { floats->Add(x); });
      break;
    case kHalf:
      ForEach<uint16_t>(bytes, [&](uint16_t x) { floats->Add(HalfToFloat(x)); });
      break;
    case kInt:
      ForEach<int32_t>(bytes, [&](int32_t x) { doubles->Add(x); });
      break;
    case kUint:
      ForEach<uint32_t>(bytes, [&](uint32_t x) { doubles->Add(x); });
      break;
  }
}

void ConvertBlob(BlobProto* blob, const BlobPlace& place, Forks* forks) {
  const UnknownFieldSet& fields = UnknownsOf(*blob);
  if (fields.empty()) return;
  constexpr auto kBytes = UnknownField::TYPE_LENGTH_DELIMITED;
  constexpr auto kNumber = UnknownField::TYPE_VARINT;
  if (const UnknownField* data = Find(fields, 12, kBytes)) {
    forks->insert("NVCaffe");
    Unpack(data->length_delimited(), Find(fields, 10, kNumber), place, blob->mutable_data(),
           blob->mutable_double_data());
  }
  if (const UnknownField* diff = Find(fields, 13, kBytes)) {
    forks->insert("NVCaffe");
    Unpack(diff->length_delimited(), Find(fields, 11, kNumber), place, blob->mutable_diff(),
           blob->mutable_double_diff());
  }
  if (Find(fields, 7, kNumber) != nullptr || Find(fields, 8, kNumber) != nullptr) {
    forks->insert("PMLS-Caffe");
  }
  blob->GetReflection()->MutableUnknownFields(blob)->Clear();
}

template <typename Layer>
void ConvertBlobs(Layer* layer, const std::string& name, const std::string& file, Forks* forks) {
  for (int i = 0; i < layer->blobs_size(); ++i) {
    const BlobPlace place{file, fmt::format("layer \"{}\", parameter {}", name, i)};
    ConvertBlob(layer->mutable_blobs(i), place, forks);
  }
}

void DropForeignSettings(LayerParameter* layer, Forks* forks) {
  UnknownFieldSet* fields = layer->GetReflection()->MutableUnknownFields(layer);
  for (int number = 145; number <= 148; ++number) {
    if (Find(*fields, number, UnknownField::TYPE_VARINT) == nullptr) continue;
    forks->insert("NVCaffe");
    fields->DeleteByNumber(number);
  }
  if (layer->has_swish_param() && !UnknownsOf(layer->swish_param()).empty()) {
    forks->insert("CaffeGPI");
    layer->clear_swish_param();
  }
  // Caffe's own message has both its fields, and no others.
  if (layer->has_clip_param() && layer->type() != "Clip" &&
      (!layer->clip_param().IsInitialized() || !UnknownsOf(layer->clip_param()).empty())) {
    forks->insert(layer->type() == "ParallelInMemData" ? "CaffeGPI" : "intel/caffe");
    layer->clear_clip_param();
  }
}

// Plain statistics with the factor left at 0, as NVCaffe and its kin have them: read by Caffe's
// rule (statistics = blob / factor) they would all be 0. Caffe's own are 0 when the factor is.
bool SetBatchNormFactor(LayerParameter* layer) {
  if (layer->type() != "BatchNorm" || layer->blobs_size() < 3) return false;
  const auto zero = [](const BlobProto& blob) {
    const auto is_zero = [](auto x) { return x == 0; };
    return std::ranges::all_of(blob.data(), is_zero) &&
           std::ranges::all_of(blob.double_data(), is_zero);
  };
  BlobProto* factor = layer->mutable_blobs(2);
  if (factor->data_size() + factor->double_data_size() != 1 || !zero(*factor)) return false;
  if (zero(layer->blobs(0)) && zero(layer->blobs(1))) return false;
  if (factor->data_size() > 0) factor->set_data(0, 1);
  if (factor->double_data_size() > 0) factor->set_double_data(0, 1);
  return true;
}

}  // namespace

void LogForks(const Forks& forks, const std::string& file) {
  for (const std::string& fork : forks) {
    LogInfo("{}: a file of {}; its parameters are converted, its own settings left out", file,
            fork);
  }
}

bool ConvertDialect(NetParameter* net, const std::string& file) {
  bool changed = false;
  Forks forks;
  for (LayerParameter& layer : *net->mutable_layer()) {
    ConvertBlobs(&layer, layer.name(), file, &forks);
    DropForeignSettings(&layer, &forks);
    if (SetBatchNormFactor(&layer)) {
      changed = true;
      LogInfo(
          "{}: layer \"{}\": plain mean and variance, as NVCaffe stores them: its factor 0 is "
          "read as 1",
          file, layer.name());
    }
  }
  for (V1LayerParameter& layer : *net->mutable_layers()) {
    ConvertBlobs(&layer, layer.name(), file, &forks);
    if (layer.has_layer()) {
      ConvertBlobs(layer.mutable_layer(), layer.layer().name(), file, &forks);
    }
  }
  if (forks.contains("PMLS-Caffe")) {  // shared_file_system in both
    for (V1LayerParameter& layer : *net->mutable_layers()) {
      if (layer.has_image_data_param()) layer.mutable_image_data_param()->clear_is_color();
      if (layer.has_data_param()) layer.mutable_data_param()->clear_force_encoded_color();
    }
  }
  LogForks(forks, file);
  return changed || !forks.empty();
}

void ConvertDialect(BlobProto* blob, const std::string& what, const std::string& file,
                    Forks* forks) {
  ConvertBlob(blob, {file, what}, forks);
}

}  // namespace carafe
