#include "carafe/net/weights.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <climits>
#include <set>

#include "carafe/base/file.h"
#include "carafe/base/hash.h"
#include "carafe/base/log.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/net/weights_hdf5.h"
#include "carafe/proto/batch_norm_dialect.h"
#include "carafe/proto/dialects.h"
#include "carafe/proto/private_fields.h"

namespace carafe {
namespace {

bool IsLegacy(const BlobProto& proto) {
  return proto.has_num() || proto.has_channels() || proto.has_height() || proto.has_width();
}

// A legacy 4-D shape fits if it is the target's with ones in front.
bool ShapesFit(const BlobProto& proto, const Shape& target) {
  if (!IsLegacy(proto)) return BlobProtoShape(proto) == target;
  if (target.rank() > 4) return false;
  const int64_t legacy[] = {proto.num(), proto.channels(), proto.height(), proto.width()};
  const int missing = 4 - target.rank();
  for (int axis = 0; axis < 4; ++axis) {
    if (legacy[axis] != (axis < missing ? 1 : target[axis - missing])) return false;
  }
  return true;
}

template <typename T>
void CopyLayer(Stream& stream, const LayerParameter& source, const std::string& file,
               Layer<T>& layer) {
  if (source.blobs_size() != static_cast<int>(layer.blobs().size())) {
    const bool fused = source.type() == "BatchNorm" && source.blobs_size() == 5;
    throw DataError(file, -1,
                    fmt::format("layer \"{}\" has {} parameters in the file and {} in the net",
                                layer.name(), source.blobs_size(), layer.blobs().size()),
                    fused ? "this BatchNorm of NVCaffe or Caffe-MPI scales too: give it "
                            "batch_norm_param { scale_bias: true }"
                          : "rename the layer in the net to train it from the start");
  }
  for (int i = 0; i < source.blobs_size(); ++i) {
    Blob<T>& blob = layer.blob(i);
    const std::string what = fmt::format("layer \"{}\", parameter {}", layer.name(), i);
    // First: it refuses shapes that cannot be.
    const std::vector<double> values = BlobProtoValues(source.blobs(i), file, what);
    if (!ShapesFit(source.blobs(i), blob.shape())) {
      throw DataError(
          file, -1,
          fmt::format("{}: the file has shape {}, the net {}", what,
                      BlobProtoShape(source.blobs(i)).ToString(), blob.shape().ToString()),
          "rename the layer in the net to train it from the start");
    }
    blob.SetData(stream, std::vector<T>(values.begin(), values.end()));
  }
}

}  // namespace

Shape BlobProtoShape(const BlobProto& proto) {
  if (IsLegacy(proto)) {
    return Shape{proto.num(), proto.channels(), proto.height(), proto.width()};
  }
  return Shape(std::span<const int64_t>(proto.shape().dim().data(),
                                        static_cast<size_t>(proto.shape().dim_size())));
}

std::vector<double> BlobProtoValues(const BlobProto& proto, const std::string& file,
                                    const std::string& what) {
  std::vector<double> values =
      proto.double_data_size() > 0
          ? std::vector<double>(proto.double_data().begin(), proto.double_data().end())
          : std::vector<double>(proto.data().begin(), proto.data().end());
  int64_t count = -1;
  try {
    count = BlobProtoShape(proto).Count();
  } catch (const ConfigError&) {  // sizes that no memory could hold: said below
  }
  if (static_cast<int64_t>(values.size()) != count) {
    throw DataError(file, -1,
                    fmt::format("{}: {} values do not fill its shape", what, values.size()),
                    "the file is damaged; fetch or write it again");
  }
  return values;
}

std::vector<double> BlobProtoDiffs(const BlobProto& proto) {
  if (proto.double_diff_size() > 0) return {proto.double_diff().begin(), proto.double_diff().end()};
  return {proto.diff().begin(), proto.diff().end()};
}

template <typename T>
void ToBlobProto(Stream& stream, const Blob<T>& blob, bool with_diff, BlobProto* proto) {
  proto->Clear();
  // A scalar has no shape at all, as in files of the original: readers (OpenCV) rely on that.
  for (const int64_t dim : blob.shape().dims()) proto->mutable_shape()->add_dim(dim);
  const auto put = [](const std::vector<T>& values, auto* field) {
    field->Reserve(static_cast<int>(values.size()));
    for (const T value : values) field->AddAlreadyReserved(value);
  };
  if constexpr (std::is_same_v<T, float>) {
    put(blob.DataToHost(stream), proto->mutable_data());
    if (with_diff) put(blob.DiffToHost(stream), proto->mutable_diff());
  } else {
    put(blob.DataToHost(stream), proto->mutable_double_data());
    if (with_diff) put(blob.DiffToHost(stream), proto->mutable_double_diff());
  }
}

template <typename T>
NetParameter ToNetParameter(Stream& stream, const Net<T>& net, bool with_diff) {
  NetParameter result;
  result.set_name(net.name());
  for (size_t l = 0; l < net.layers().size(); ++l) {
    Layer<T>& layer = *net.layers()[l];
    LayerParameter* param = result.add_layer();
    *param = layer.spec().param();
    param->clear_blobs();
    DropPrivateFields(param);
    if (param->loss_weight_size() == 0 && FindLayer(layer.spec()).info.is_loss) {
      for (size_t t = 0; t < net.tops()[l].size(); ++t) param->add_loss_weight(t == 0 ? 1 : 0);
    }
    // As in the original: what is not learned says so in the file.
    Shapes bottom;
    for (const Blob<T>* blob : net.bottoms()[l]) bottom.push_back(blob->shape());
    const std::vector<ParamDef> defs = layer.DeclareParams(bottom);
    for (size_t i = 0; i < defs.size(); ++i) {
      if (defs[i].learned || static_cast<int>(i) < param->param_size()) continue;
      param->add_param()->set_lr_mult(0);
    }
    for (const auto& blob : layer.blobs()) {
      ToBlobProto(stream, *blob, with_diff, param->add_blobs());
    }
  }
  return result;
}

template <typename T>
void CopyWeights(Stream& stream, const NetParameter& source, const std::string& file, Net<T>& net) {
  std::set<std::string> done;  // the first of several layers with one name wins
  for (const LayerParameter& from : source.layer()) {
    if (!done.insert(from.name()).second) continue;
    Layer<T>* layer = net.FindLayerNamed(from.name());
    if (layer == nullptr) {
      LogInfo("Ignoring source layer {}", from.name());
      continue;
    }
    if (from.type() == "BatchNorm" && layer->blobs().size() == 5) {
      LayerParameter ordered = from;
      if (ReorderBatchNormBlobs(&ordered)) {
        LogInfo(
            "layer {}: read statistics, scale and bias in the order of the fork that wrote them",
            from.name());
      }
      CopyLayer(stream, ordered, file, *layer);
      continue;
    }
    CopyLayer(stream, from, file, *layer);
  }
}

NetParameter ReadNetBinary(const std::string& path, NetUpgrade* upgrade) {
  const std::string content = ReadFile(path);
  if (content.starts_with("\x89HDF\r\n")) {
    throw DataError(path, -1, "this is an HDF5 file, not a binaryproto .caffemodel",
                    "give the weights as a binaryproto here");
  }
  google::protobuf::io::ArrayInputStream raw(
      content.data(), static_cast<int>(std::min<size_t>(content.size(), INT_MAX)));
  google::protobuf::io::CodedInputStream coded(&raw);
  coded.SetTotalBytesLimit(INT_MAX);
  NetParameter net;
  if (content.empty() || content.size() > INT_MAX || !net.ParsePartialFromCodedStream(&coded) ||
      !coded.ConsumedEntireMessage()) {
    throw DataError(path, -1,
                    fmt::format("this is not a whole .caffemodel ({} bytes)", content.size()),
                    "the file is truncated or of another kind; fetch or write it again");
  }
  const bool foreign = ConvertDialect(&net, path);
  NetUpgrade done = UpgradeNet(&net, path);
  done.changed = done.changed || foreign;
  if (upgrade != nullptr) *upgrade = std::move(done);
  return net;
}

template <typename T>
void LoadWeightsFile(Stream& stream, const std::string& path, Net<T>& net) {
  if (IsHdf5(path)) {
    LoadWeightsHdf5(stream, path, net);
  } else {
    CopyWeights(stream, ReadNetBinary(path), path, net);
  }
}

void CheckWeightsFile(const std::string& path) {
  if (IsHdf5(path)) {
    CheckWeightsHdf5(path);
  } else {
    ReadNetBinary(path);
  }
}

template <typename T>
void LoadWeights(Stream& stream, const std::string& paths, Net<T>& net) {
  size_t begin = 0;
  while (begin <= paths.size()) {
    const size_t comma = std::min(paths.find(',', begin), paths.size());
    const std::string path = paths.substr(begin, comma - begin);
    begin = comma + 1;
    if (!path.empty()) LoadWeightsFile(stream, path, net);
  }
}

template <typename T>
uint64_t WeightsHash(Stream& stream, const Net<T>& net) {
  uint64_t hash = 0;
  for (const Param<T>& param : net.params()) {
    const std::vector<T> values = param.blob->DataToHost(stream);
    hash = Hash64(values.data(), values.size() * sizeof(T), hash);
  }
  return hash;
}

#define CARAFE_INSTANTIATE(T)                                                              \
  template void ToBlobProto<T>(Stream&, const Blob<T>&, bool, BlobProto*);                 \
  template NetParameter ToNetParameter<T>(Stream&, const Net<T>&, bool);                   \
  template void CopyWeights<T>(Stream&, const NetParameter&, const std::string&, Net<T>&); \
  template void LoadWeightsFile<T>(Stream&, const std::string&, Net<T>&);                  \
  template void LoadWeights<T>(Stream&, const std::string&, Net<T>&);                      \
  template uint64_t WeightsHash<T>(Stream&, const Net<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
