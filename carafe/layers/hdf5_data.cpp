// Rows of HDF5 files: each top is the dataset of its name, as (rows, ...). In TRAIN the rows are
// divided among the workers (data/sampler.h); after the last comes the first again.
#include "carafe/data/datasets.h"
#include "carafe/layers/batch_layer.h"

namespace carafe {
namespace {

BatchSettings SettingsOf(const LayerSpec& spec) {
  const HDF5DataParameter& param = spec.param().hdf5_data_param();
  return {.batch_size = param.batch_size(),
          .batch_path = "hdf5_data_param.batch_size",
          .prefetch = spec.param().data_param().prefetch(),
          .shard = spec.phase() == TRAIN,
          .shuffle = param.shuffle()};
}

template <typename T>
DataPipeline Open(const LayerSpec& spec) {
  const auto& tops = spec.param().top();
  return {.data =
              OpenHdf5Rows<T>(spec.param().hdf5_data_param().source(), {tops.begin(), tops.end()})};
}

template <typename T>
class Hdf5Data final : public BatchLayer<T> {
 public:
  explicit Hdf5Data(const LayerSpec& spec)
      : BatchLayer<T>(spec, SettingsOf(spec), [spec] { return Open<T>(spec); }) {
    spec.Check(!spec.param().hdf5_data_param().source().empty(), "hdf5_data_param.source",
               "source is missing", "give a text file that names HDF5 files, one in each line");
    spec.Check(!spec.param().has_transform_param(), "transform_param",
               "transform_param has no meaning here", "store the data as the net shall see them");
  }
};

const RegisterLayer<Hdf5Data> kRegistered{{.type = "HDF5Data",
                                           .bottoms = {0, 0},
                                           .tops = {1, Arity::kAny},
                                           .summary = "Rows of HDF5 files, one dataset per top.",
                                           .is_data = true}};
const RegisterFileSettings kFiles{"HDF5Data", {.fields = {"hdf5_data_param.source"}}};

}  // namespace
}  // namespace carafe
