#include "carafe/train/placeholder_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "carafe/layers/data_layer.h"

namespace carafe {
namespace {

struct ImageBatch {
  int64_t rows, channels, height, width;
  std::vector<int64_t> labels;  // the shape of top 1
};

std::optional<DeclaredImages> DeclaredBy(const LayerParameter& layer) {
  const FileSettings* files = FileSettingsRegistry::Instance().Find(layer.type());
  if (files == nullptr || !files->declare_images) return std::nullopt;
  return files->declare_images(layer);
}

ImageBatch WithLabels(const DeclaredImages& declared, int64_t channels, int64_t height,
                      int64_t width) {
  ImageBatch batch{declared.batch, channels, height, width, {declared.batch}};
  if (const int64_t divisor = declared.label_divisor; divisor > 0) {
    batch.labels = {declared.batch, 1, height / divisor, width / divisor};
  } else if (!declared.label_shape.empty()) {
    batch.labels = declared.label_shape;
  }
  return batch;
}

std::optional<ImageBatch> BatchOf(const LayerParameter& layer, const DeclaredImages& declared,
                                  const std::vector<int64_t>& item) {
  if (item.size() == 3 && declared.resized) {
    return WithLabels(declared, item[0], declared.height, declared.width);
  }
  if (item.size() == 3) return WithLabels(declared, item[0], item[1], item[2]);
  const TransformationParameter& transform = layer.transform_param();
  const int64_t crop = transform.crop_size();
  const int64_t height = crop > 0 ? crop : declared.height;
  const int64_t width = crop > 0 ? crop : declared.width;
  if (height <= 0 || width <= 0) return std::nullopt;
  const int64_t means = transform.mean_value_size();
  const int64_t channels = transform.force_gray()  ? 1
                           : declared.channels > 0 ? declared.channels
                           : means > 1             ? means
                                                   : 3;
  return WithLabels(declared, channels, height, width);
}

// Settings of layers are in fields that end in _param.
void ClearSettings(LayerParameter* layer) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer->GetReflection()->ListFields(*layer, &fields);
  for (const auto* field : fields) {
    if (field->name().ends_with("_param")) layer->GetReflection()->ClearField(layer, field);
  }
}

void BecomeInput(const ImageBatch& batch, LayerParameter* layer) {
  ClearSettings(layer);
  layer->set_type("Input");
  InputParameter* input = layer->mutable_input_param();
  for (int t = 0; t < layer->top_size(); ++t) {
    BlobShape* shape = input->add_shape();
    const std::vector<int64_t> image = {batch.rows, batch.channels, batch.height, batch.width};
    for (const int64_t dim : t == 0 ? image : batch.labels) shape->add_dim(dim);
  }
}

}  // namespace

NetSpec WithPlaceholderData(const NetSpec& spec, const NetState& state,
                            const std::vector<int64_t>& item, std::vector<std::string>* notes) {
  NetSpec result = spec;
  int index = -1;
  std::set<std::string> tops;  // of the data layers so far
  for (const LayerText& text : spec.Layers()) {
    ++index;
    const std::optional<DeclaredImages> declared = DeclaredBy(text.param);
    std::error_code ignored;
    if (!declared || std::filesystem::exists(declared->source, ignored)) continue;
    if (declared->source.empty() || declared->batch <= 0) continue;  // the layer itself complains
    if (FilterLayers({text}, state).empty()) continue;
    // A second layer of the same top is an error of the net: it is reported as what it is.
    const bool again = std::ranges::any_of(
        text.param.top(), [&](const std::string& top) { return tops.contains(top); });
    tops.insert(text.param.top().begin(), text.param.top().end());
    if (again) continue;
    MakeLayer<float>({text.param, state.phase(), text.place});  // checks settings; opens no data
    const std::optional<ImageBatch> batch = BatchOf(text.param, *declared, item);
    if (!batch) {
      LayerSpec(text.param, state.phase(), text.place)
          .Fail("",
                fmt::format("{} does not exist, and no setting gives the size of its records",
                            declared->source),
                "make the data first, or give --data_shape=CHANNELS,HEIGHT,WIDTH");
    }
    BecomeInput(*batch, result.param.mutable_layer(index));
    notes->push_back(fmt::format("layer \"{}\": {} does not exist; assuming batches of {}x{}x{}x{}",
                                 text.param.name(), declared->source, batch->rows, batch->channels,
                                 batch->height, batch->width));
  }
  return result;
}

}  // namespace carafe
