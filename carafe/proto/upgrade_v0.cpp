// V0 nets: `layers { layer { .. } bottom top }`, with the type a string and the settings of all
// types in one message. They become V1 layers; `padding` layers become the `pad` of the convolution
// or pooling that follows.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/base/suggest.h"
#include "carafe/proto/upgrade.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const std::map<std::string, V1LayerParameter::LayerType>& Types() {
  static const std::map<std::string, V1LayerParameter::LayerType> types = {
      {"accuracy", V1LayerParameter::ACCURACY},
      {"bnll", V1LayerParameter::BNLL},
      {"concat", V1LayerParameter::CONCAT},
      {"conv", V1LayerParameter::CONVOLUTION},
      {"data", V1LayerParameter::DATA},
      {"dropout", V1LayerParameter::DROPOUT},
      {"euclidean_loss", V1LayerParameter::EUCLIDEAN_LOSS},
      {"flatten", V1LayerParameter::FLATTEN},
      {"hdf5_data", V1LayerParameter::HDF5_DATA},
      {"hdf5_output", V1LayerParameter::HDF5_OUTPUT},
      {"im2col", V1LayerParameter::IM2COL},
      {"images", V1LayerParameter::IMAGE_DATA},
      {"infogain_loss", V1LayerParameter::INFOGAIN_LOSS},
      {"innerproduct", V1LayerParameter::INNER_PRODUCT},
      {"lrn", V1LayerParameter::LRN},
      {"multinomial_logistic_loss", V1LayerParameter::MULTINOMIAL_LOGISTIC_LOSS},
      {"pool", V1LayerParameter::POOLING},
      {"relu", V1LayerParameter::RELU},
      {"sigmoid", V1LayerParameter::SIGMOID},
      {"softmax", V1LayerParameter::SOFTMAX},
      {"softmax_loss", V1LayerParameter::SOFTMAX_LOSS},
      {"split", V1LayerParameter::SPLIT},
      {"tanh", V1LayerParameter::TANH},
      {"window_data", V1LayerParameter::WINDOW_DATA},
  };
  return types;
}

// Where a V0 setting goes: field of V0 -> field of V1, and the field in it if it is a message. An
// empty `type` stands for all types.
struct Move {
  std::string_view from, type, message, to;
};
constexpr Move kMoves[] = {
    {"name", "", "", "name"},
    {"blobs_lr", "", "", "blobs_lr"},
    {"weight_decay", "", "", "weight_decay"},
    {"num_output", "conv", "convolution_param", "num_output"},
    {"num_output", "innerproduct", "inner_product_param", "num_output"},
    {"biasterm", "conv", "convolution_param", "bias_term"},
    {"biasterm", "innerproduct", "inner_product_param", "bias_term"},
    {"weight_filler", "conv", "convolution_param", "weight_filler"},
    {"weight_filler", "innerproduct", "inner_product_param", "weight_filler"},
    {"bias_filler", "conv", "convolution_param", "bias_filler"},
    {"bias_filler", "innerproduct", "inner_product_param", "bias_filler"},
    {"pad", "conv", "convolution_param", "pad"},
    {"pad", "pool", "pooling_param", "pad"},
    {"kernelsize", "conv", "convolution_param", "kernel_size"},
    {"kernelsize", "pool", "pooling_param", "kernel_size"},
    {"group", "conv", "convolution_param", "group"},
    {"stride", "conv", "convolution_param", "stride"},
    {"stride", "pool", "pooling_param", "stride"},
    {"pool", "pool", "pooling_param", "pool"},
    {"dropout_ratio", "dropout", "dropout_param", "dropout_ratio"},
    {"local_size", "lrn", "lrn_param", "local_size"},
    {"alpha", "lrn", "lrn_param", "alpha"},
    {"beta", "lrn", "lrn_param", "beta"},
    {"k", "lrn", "lrn_param", "k"},
    {"source", "data", "data_param", "source"},
    {"source", "hdf5_data", "hdf5_data_param", "source"},
    {"source", "images", "image_data_param", "source"},
    {"source", "window_data", "window_data_param", "source"},
    {"source", "infogain_loss", "infogain_loss_param", "source"},
    {"scale", "", "transform_param", "scale"},
    {"meanfile", "", "transform_param", "mean_file"},
    {"cropsize", "", "transform_param", "crop_size"},
    {"mirror", "", "transform_param", "mirror"},
    {"batchsize", "data", "data_param", "batch_size"},
    {"batchsize", "hdf5_data", "hdf5_data_param", "batch_size"},
    {"batchsize", "images", "image_data_param", "batch_size"},
    {"batchsize", "window_data", "window_data_param", "batch_size"},
    {"rand_skip", "data", "data_param", "rand_skip"},
    {"rand_skip", "images", "image_data_param", "rand_skip"},
    {"shuffle_images", "images", "image_data_param", "shuffle"},
    {"new_height", "images", "image_data_param", "new_height"},
    {"new_width", "images", "image_data_param", "new_width"},
    {"concat_dim", "concat", "concat_param", "concat_dim"},
    {"det_fg_threshold", "window_data", "window_data_param", "fg_threshold"},
    {"det_bg_threshold", "window_data", "window_data_param", "bg_threshold"},
    {"det_fg_fraction", "window_data", "window_data_param", "fg_fraction"},
    {"det_context_pad", "window_data", "window_data_param", "context_pad"},
    {"det_crop_mode", "window_data", "window_data_param", "crop_mode"},
    {"hdf5_output_param", "hdf5_output", "", "hdf5_output_param"},
};

const FieldDescriptor& FieldNamed(const Message& message, std::string_view name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(std::string(name));
  Ensure(field != nullptr, "a field of the V0 table is not in the schema");
  return *field;
}

// Copies a value whose kind may differ only in the width of the integer or in being repeated.
void CopyValue(const Message& from, const FieldDescriptor& source, Message* to,
               const FieldDescriptor& target) {
  const Reflection &in = *from.GetReflection(), &out = *to->GetReflection();
  const bool repeated = target.is_repeated();
  const int count = source.is_repeated() ? in.FieldSize(from, &source) : 1;
  for (int i = 0; i < count; ++i) {
    switch (source.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        out.MutableMessage(to, &target)->CopyFrom(in.GetMessage(from, &source));
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        out.SetString(to, &target, in.GetString(from, &source));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        out.SetBool(to, &target, in.GetBool(from, &source));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        out.SetEnumValue(to, &target, in.GetEnumValue(from, &source));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        if (source.is_repeated()) {
          out.AddFloat(to, &target, in.GetRepeatedFloat(from, &source, i));
        } else {
          out.SetFloat(to, &target, in.GetFloat(from, &source));
        }
        break;
      case FieldDescriptor::CPPTYPE_INT32:  // new_height, new_width: unsigned in V1
        out.SetUInt32(to, &target, static_cast<uint32_t>(in.GetInt32(from, &source)));
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        if (repeated) {
          out.AddUInt32(to, &target, in.GetUInt32(from, &source));
        } else {
          out.SetUInt32(to, &target, in.GetUInt32(from, &source));
        }
        break;
      default:
        throw InternalError("a V0 setting of a kind that is not moved");
    }
  }
}

// One layer: `old` is what a V0 file has in `layers`.
V1LayerParameter UpgradeLayer(V1LayerParameter old, int index, OldNet& net) {
  V1LayerParameter layer;
  *layer.mutable_bottom() = old.bottom();
  *layer.mutable_top() = old.top();
  V0LayerParameter& v0 = *old.mutable_layer();
  if (v0.has_type()) {
    const auto type = Types().find(v0.type());
    if (type == Types().end()) {
      std::vector<std::string> names = {"padding"};
      for (const auto& [name, value] : Types()) names.push_back(name);
      throw ConfigError(
          net.AtLayer(index, "layer.type"),
          fmt::format("layer \"{}\": unknown V0 layer type \"{}\"", v0.name(), v0.type()),
          DidYouMean(v0.type(), names));
    }
    layer.set_type(type->second);
  }
  layer.mutable_blobs()->Swap(v0.mutable_blobs());  // by far the largest part
  std::vector<const FieldDescriptor*> given;
  v0.GetReflection()->ListFields(v0, &given);
  for (const FieldDescriptor* field : given) {
    if (field->name() == "type") continue;
    const Move* move = std::ranges::find_if(kMoves, [&](const Move& row) {
      return row.from == field->name() && (row.type.empty() || row.type == v0.type());
    });
    if (move == std::end(kMoves)) {
      LogError("{}: layer \"{}\": {} means nothing to type {}, it is left out",
               net.AtLayer(index, "layer." + field->name()).ToString(), v0.name(), field->name(),
               v0.type());
      // Settings that no type ever had (new_num, new_channels) change nothing.
      const auto same = [&](const Move& row) { return row.from == field->name(); };
      if (std::ranges::any_of(kMoves, same)) net.complete = false;
      continue;
    }
    Message* target = &layer;
    if (!move->message.empty()) {
      target = layer.GetReflection()->MutableMessage(&layer, &FieldNamed(layer, move->message));
    }
    CopyValue(v0, *field, target, FieldNamed(*target, move->to));
  }
  return layer;
}

// Gives `reader` the pad of the padding layer that makes its bottom, and the bottom of that layer.
void FoldPadding(const OldNet& net, const V1LayerParameter& padding, int index,
                 V1LayerParameter* reader) {
  const V0LayerParameter& layer = reader->layer();
  const auto check = [&](bool condition, const std::string& what, const char* fix) {
    if (!condition) throw ConfigError(net.AtLayer(index, ""), what, fix);
  };
  check(layer.type() == "conv" || layer.type() == "pool",
        fmt::format("layer \"{}\" ({}) reads from a padding layer", layer.name(), layer.type()),
        "only conv and pool can have padding");
  check(reader->bottom_size() == 1 && padding.bottom_size() == 1 && padding.top_size() == 1,
        fmt::format("layer \"{}\" and its padding layer must have one bottom each", layer.name()),
        "give each one bottom, and the padding one top");
  reader->mutable_layer()->set_pad(padding.layer().pad());
  reader->set_bottom(0, padding.bottom(0));
}

// Takes the padding layers out of the list.
void FoldAllPadding(OldNet& net) {
  std::map<std::string, std::optional<int>> producers;  // blob -> layer; none for an input
  for (const std::string& input : net.param->input()) producers[input] = std::nullopt;
  auto& layers = *net.param->mutable_layers();
  const auto is_padding = [](const V1LayerParameter& layer) {
    return layer.layer().type() == "padding";
  };
  for (int i = 0; i < layers.size(); ++i) {
    V1LayerParameter& layer = layers[i];
    for (int j = 0; j < layer.bottom_size(); ++j) {
      const auto found = producers.find(layer.bottom(j));
      if (found == producers.end()) {
        throw ConfigError(net.AtLayer(i, fmt::format("bottom[{}]", j)),
                          fmt::format("layer \"{}\": nothing before it makes the blob \"{}\"",
                                      layer.layer().name(), layer.bottom(j)),
                          "correct the name, or declare it with `input`");
      }
      if (!found->second.has_value() || !is_padding(layers[*found->second])) continue;
      FoldPadding(net, layers[*found->second], i, &layer);
    }
    for (const std::string& top : layer.top()) producers[top] = i;
  }
  std::vector<Place> places;
  int kept = 0;
  for (int i = 0; i < layers.size(); ++i) {
    if (is_padding(layers[i])) continue;
    places.push_back(net.layer_places[static_cast<size_t>(i)]);
    layers.SwapElements(kept++, i);
  }
  layers.DeleteSubrange(kept, layers.size() - kept);
  net.layer_places = std::move(places);
}

}  // namespace

bool UpgradeV0(OldNet& net) {
  NetParameter& param = *net.param;
  const auto is_v0 = [](const V1LayerParameter& layer) { return layer.has_layer(); };
  if (std::ranges::none_of(param.layers(), is_v0)) return false;
  for (int i = 0; i < param.layers_size(); ++i) {
    if (is_v0(param.layers(i))) continue;
    throw ConfigError(net.AtLayer(i, ""), "V0 and V1 layers are mixed in one net",
                      "write all of them as `layers { layer { .. } }`, or none");
  }
  FoldAllPadding(net);
  for (int i = 0; i < param.layers_size(); ++i) {
    V1LayerParameter old;
    old.Swap(param.mutable_layers(i));
    *param.mutable_layers(i) = UpgradeLayer(std::move(old), i, net);
  }
  // Nets of that time had no other fields: what else is here was never read.
  param.clear_state();
  param.clear_debug_info();
  param.clear_input_shape();
  return true;
}

}  // namespace carafe
