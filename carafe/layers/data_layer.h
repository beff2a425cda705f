// What layers that read or write files offer to others: the data set of a data layer, and what its
// settings tell before anything is read. Lists of layer types are not needed elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "carafe/base/registry.h"
#include "carafe/data/dataset.h"
#include "carafe/layers/layer.h"

namespace carafe {

// The part of a data layer that does not depend on the type of its values. Used by the thread that
// runs the net.
class DataLayer {
 public:
  virtual ~DataLayer() = default;
  virtual const DataSet& data_set() const = 0;   // opened by the first call
  virtual double data_wait_seconds() const = 0;  // total time that the net has waited for batches
};

// Null for a layer that reads no files.
template <typename T>
const DataLayer* AsDataLayer(const Layer<T>& layer) {
  return dynamic_cast<const DataLayer*>(&layer);
}

// What the settings of a layer of images tell of its records.
struct DeclaredImages {
  std::string source;  // the file or folder that the layer reads
  int64_t batch = 0;
  int64_t channels = 0, height = 0, width = 0;  // before crop_size; 0: only the data tell
  int64_t label_divisor = 0;  // not 0: labels are images so many times smaller (1, H / d, W / d)
  bool resized = false;       // height and width hold for records of any size
  std::vector<int64_t> label_shape = {};  // of top 1, if it is neither one label per row nor images
};

struct FileSettings {
  // Fields that name files, e.g. "data_param.source": they may differ between hosts.
  std::vector<std::string> fields;
  // Lets a net be checked where its data are missing; null: it cannot.
  std::function<DeclaredImages(const LayerParameter&)> declare_images = nullptr;
};

using FileSettingsRegistry = Registry<FileSettings>;  // by layer type

struct RegisterFileSettings {
  RegisterFileSettings(const std::string& type, FileSettings settings) {
    FileSettingsRegistry::Instance().Add(type, std::move(settings));
  }
};

}  // namespace carafe
