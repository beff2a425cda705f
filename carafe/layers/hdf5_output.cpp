// Writes its two bottoms to an HDF5 file, as datasets `data` and `label` of four axes (missing ones
// are 1). The first pass makes the file, each later one appends its rows; between passes the file
// is closed, so it is whole whenever the program ends. With several workers the first one writes.
#include <fmt/format.h>

#include "carafe/base/log.h"
#include "carafe/data/hdf5_file.h"
#include "carafe/layers/data_layer.h"
#include "carafe/layers/layer.h"

namespace carafe {
namespace {

constexpr int kAxes = 4;

template <typename T>
class Hdf5Output final : public Layer<T> {
 public:
  explicit Hdf5Output(const LayerSpec& spec)
      : Layer<T>(spec), path_(spec.param().hdf5_output_param().file_name()) {
    spec.Check(!path_.empty(), "hdf5_output_param.file_name", "file_name is missing",
               "give the path of the file to write, e.g. file_name: \"features.h5\"");
  }

  Shapes InferShapes(const Shapes& bottom) const override {
    for (const Shape& shape : bottom) {
      this->spec().Check(shape.rank() <= kAxes, "bottom",
                         fmt::format("a bottom has {} axes, {}", shape.rank(), shape.ToString()),
                         "reshape it to four axes at most");
    }
    this->spec().Check(bottom[0].LegacyDim(0) == bottom[1].LegacyDim(0), "bottom",
                       fmt::format("the bottoms have {} and {} rows", bottom[0].LegacyDim(0),
                                   bottom[1].LegacyDim(0)),
                       "give data and labels of the same number of rows");
    return {};
  }

  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> /*top*/) override {
    if (run.replica.index != 0) return;
    if (run.replica.count > 1 && !started_) {
      LogWarning("layer \"{}\" ({}): only worker 0 of {} writes its rows to {}", this->name(),
                 this->spec().param().type(), run.replica.count, path_);
    }
    Hdf5File file(path_, started_ ? Hdf5File::Mode::kAppend : Hdf5File::Mode::kCreate);
    Append(run.stream, *bottom[0], "data", file);
    Append(run.stream, *bottom[1], "label", file);
    file.Close();
    started_ = true;
  }

  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}
  bool RewindForward(Stream&, int) override { return false; }  // the rows are in the file

 private:
  static void Append(Stream& stream, const Blob<T>& blob, const std::string& name, Hdf5File& file) {
    const Shape& shape = blob.shape();
    const Shape four = {shape.LegacyDim(0), shape.LegacyDim(1), shape.LegacyDim(2),
                        shape.LegacyDim(3)};
    file.AppendRows<T>(name, four, blob.DataToHost(stream));
  }

  const std::string path_;
  bool started_ = false;
};

const RegisterLayer<Hdf5Output> kRegistered{{.type = "HDF5Output",
                                             .bottoms = {2, 2},
                                             .tops = {0, 0},
                                             .summary = "Writes data and labels to an HDF5 file."}};
const RegisterFileSettings kFiles{"HDF5Output", {.fields = {"hdf5_output_param.file_name"}}};

}  // namespace
}  // namespace carafe
