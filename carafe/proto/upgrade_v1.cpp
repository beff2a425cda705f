// V1 nets: `layers` with the type an enumeration, and learning rates, decays and names of
// parameters in lists of their own. They become `layer`; the settings of the types kept their
// names.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "carafe/proto/upgrade.h"

namespace carafe {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// By number of V1LayerParameter::LayerType.
constexpr std::array kTypes = {"",
                               "Accuracy",
                               "BNLL",
                               "Concat",
                               "Convolution",
                               "Data",
                               "Dropout",
                               "EuclideanLoss",
                               "Flatten",
                               "HDF5Data",
                               "HDF5Output",
                               "Im2col",
                               "ImageData",
                               "InfogainLoss",
                               "InnerProduct",
                               "LRN",
                               "MultinomialLogisticLoss",
                               "Pooling",
                               "ReLU",
                               "Sigmoid",
                               "Softmax",
                               "SoftmaxWithLoss",
                               "Split",
                               "TanH",
                               "WindowData",
                               "Eltwise",
                               "Power",
                               "SigmoidCrossEntropyLoss",
                               "HingeLoss",
                               "MemoryData",
                               "ArgMax",
                               "Threshold",
                               "DummyData",
                               "Slice",
                               "MVN",
                               "AbsVal",
                               "Silence",
                               "ContrastiveLoss",
                               "Exp",
                               "Deconvolution"};
static_assert(kTypes.size() == V1LayerParameter::LayerType_ARRAYSIZE);

ParamSpec* ParamAt(LayerParameter* layer, int i) {
  while (layer->param_size() <= i) layer->add_param();
  return layer->mutable_param(i);
}

// Fields of one name and kind in both messages: rules, loss weights, all ..._param messages.
void MoveSameFields(V1LayerParameter* v1, LayerParameter* layer) {
  const Reflection& in = *v1->GetReflection();
  const Reflection& out = *layer->GetReflection();
  std::vector<const FieldDescriptor*> given;
  in.ListFields(*v1, &given);
  for (const FieldDescriptor* field : given) {
    const FieldDescriptor* target = layer->GetDescriptor()->FindFieldByName(field->name());
    if (target == nullptr || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        target->message_type() != field->message_type()) {
      continue;
    }
    if (field->is_repeated()) {
      for (int i = 0; i < in.FieldSize(*v1, field); ++i) {
        Message* to = out.AddMessage(layer, target);
        to->GetReflection()->Swap(in.MutableRepeatedMessage(v1, field, i), to);
      }
    } else {
      Message* to = out.MutableMessage(layer, target);
      to->GetReflection()->Swap(in.MutableMessage(v1, field), to);
    }
  }
}

LayerParameter UpgradeLayer(V1LayerParameter v1) {
  LayerParameter layer;
  if (v1.has_name()) layer.set_name(v1.name());
  if (v1.has_type()) layer.set_type(kTypes[static_cast<size_t>(v1.type())]);
  *layer.mutable_bottom() = v1.bottom();
  *layer.mutable_top() = v1.top();
  *layer.mutable_loss_weight() = v1.loss_weight();
  for (int i = 0; i < v1.param_size(); ++i) ParamAt(&layer, i)->set_name(v1.param(i));
  for (int i = 0; i < v1.blob_share_mode_size(); ++i) {
    const bool strict = v1.blob_share_mode(i) == V1LayerParameter::STRICT;
    ParamAt(&layer, i)->set_share_mode(strict ? ParamSpec::STRICT : ParamSpec::PERMISSIVE);
  }
  for (int i = 0; i < v1.blobs_lr_size(); ++i) ParamAt(&layer, i)->set_lr_mult(v1.blobs_lr(i));
  for (int i = 0; i < v1.weight_decay_size(); ++i) {
    ParamAt(&layer, i)->set_decay_mult(v1.weight_decay(i));
  }
  MoveSameFields(&v1, &layer);
  return layer;
}

// A data layer's settings of one type with the four fields that all images have in common.
template <typename Param>
bool HasTransform(const Param& param) {
  return param.has_scale() || param.has_mean_file() || param.has_crop_size() || param.has_mirror();
}
template <typename Param>
void MoveTransform(Param* param, TransformationParameter* transform) {
  if (param->has_scale()) transform->set_scale(param->scale());
  if (param->has_mean_file()) transform->set_mean_file(param->mean_file());
  if (param->has_crop_size()) transform->set_crop_size(param->crop_size());
  if (param->has_mirror()) transform->set_mirror(param->mirror());
  param->clear_scale();
  param->clear_mean_file();
  param->clear_crop_size();
  param->clear_mirror();
}

bool HasOldTransform(const V1LayerParameter& layer) {
  switch (layer.type()) {
    case V1LayerParameter::DATA:
      return HasTransform(layer.data_param());
    case V1LayerParameter::IMAGE_DATA:
      return HasTransform(layer.image_data_param());
    case V1LayerParameter::WINDOW_DATA:
      return HasTransform(layer.window_data_param());
    default:
      return false;
  }
}

}  // namespace

// As in the original, once one layer has the old fields all data layers get a transform_param, if
// need be an empty one.
bool UpgradeDataFields(OldNet& net) {
  auto& layers = *net.param->mutable_layers();
  if (std::ranges::none_of(layers, HasOldTransform)) return false;
  for (V1LayerParameter& layer : layers) {
    if (layer.type() == V1LayerParameter::DATA) {
      MoveTransform(layer.mutable_data_param(), layer.mutable_transform_param());
    } else if (layer.type() == V1LayerParameter::IMAGE_DATA) {
      MoveTransform(layer.mutable_image_data_param(), layer.mutable_transform_param());
    } else if (layer.type() == V1LayerParameter::WINDOW_DATA) {
      MoveTransform(layer.mutable_window_data_param(), layer.mutable_transform_param());
    }
  }
  return true;
}

bool UpgradeV1(OldNet& net) {
  NetParameter& param = *net.param;
  if (param.layers_size() == 0) return false;
  for (V1LayerParameter& old : *param.mutable_layers()) {
    *param.add_layer() = UpgradeLayer(std::move(old));
  }
  param.clear_layers();
  return true;
}

}  // namespace carafe
