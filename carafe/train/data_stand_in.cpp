#include "carafe/train/data_stand_in.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "carafe/layers/layer.h"

namespace carafe {
namespace {

struct Picture {
  int64_t rows, channels, height, width;
};

struct DataSettings {
  std::string source;
  int64_t batch = 0, height = 0, width = 0;  // 0: the layer doesn't say
};

std::optional<DataSettings> SettingsOf(const LayerParameter& layer) {
  if (layer.type() == "Data") {
    return DataSettings{layer.data_param().source(), layer.data_param().batch_size(), 0, 0};
  }
  if (layer.type() == "ImageData") {
    const ImageDataParameter& param = layer.image_data_param();
    return DataSettings{param.source(), param.batch_size(), param.new_height(), param.new_width()};
  }
  if (layer.type() == "WindowData") {
    const WindowDataParameter& param = layer.window_data_param();
    return DataSettings{param.source(), param.batch_size(), param.crop_size(), param.crop_size()};
  }
  return std::nullopt;
}

std::optional<Picture> PictureOf(const LayerParameter& layer, const DataSettings& settings,
                                 const std::vector<int64_t>& item) {
  if (item.size() == 3) return Picture{settings.batch, item[0], item[1], item[2]};
  const TransformationParameter& transform = layer.transform_param();
  const int64_t crop = transform.crop_size();
  const int64_t height = crop > 0 ? crop : settings.height;
  const int64_t width = crop > 0 ? crop : settings.width;
  if (height <= 0 || width <= 0) return std::nullopt;
  const int64_t means = transform.mean_value_size();
  const bool gray = (layer.type() == "ImageData" && !layer.image_data_param().is_color()) ||
                    transform.force_gray();
  return Picture{settings.batch, gray ? 1 : means > 1 ? means : 3, height, width};
}

void BecomeInput(const Picture& picture, LayerParameter* layer) {
  layer->set_type("Input");
  layer->clear_data_param();
  layer->clear_image_data_param();
  layer->clear_window_data_param();
  layer->clear_transform_param();
  InputParameter* input = layer->mutable_input_param();
  for (int t = 0; t < layer->top_size(); ++t) {
    BlobShape* shape = input->add_shape();
    shape->add_dim(picture.rows);
    if (t > 0) continue;
    shape->add_dim(picture.channels);
    shape->add_dim(picture.height);
    shape->add_dim(picture.width);
  }
}

}  // namespace

NetSpec WithStandInsForMissingData(const NetSpec& spec, const NetState& state,
                                   const std::vector<int64_t>& item,
                                   std::vector<std::string>* notes) {
  NetSpec result = spec;
  const std::vector<LayerText> layers = spec.Layers();
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerText& text = layers[l];
    const std::optional<DataSettings> settings = SettingsOf(text.param);
    std::error_code ignored;
    if (!settings || std::filesystem::exists(settings->source, ignored)) continue;
    if (settings->source.empty() || settings->batch <= 0) continue;  // the layer itself complains
    if (FilterLayers({text}, state).empty()) continue;
    const std::optional<Picture> picture = PictureOf(text.param, *settings, item);
    if (!picture) {
      LayerSpec(text.param, state.phase(), text.place)
          .Fail("",
                fmt::format("{} is not there, and nothing says how large its records are",
                            settings->source),
                "make the data first, or give --data_shape=CHANNELS,HEIGHT,WIDTH");
    }
    BecomeInput(*picture, result.param.mutable_layer(static_cast<int>(l)));
    notes->push_back(fmt::format("layer \"{}\": {} is not there; it is assumed to give {}x{}x{}x{}",
                                 text.param.name(), settings->source, picture->rows,
                                 picture->channels, picture->height, picture->width));
  }
  return result;
}

}  // namespace carafe
