// Rows of HDF5 files: each top is the dataset of its name, as (rows, ...). The rows are dealt over
// the workers in TRAIN (data/dealer.h) and made ahead by a thread (data/prefetch.h); the files
// repeat for ever.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/data/dealer.h"
#include "carafe/data/hdf5_rows.h"
#include "carafe/data/prefetch.h"
#include "carafe/layers/layer.h"
#include "carafe/layers/wait_scope.h"

namespace carafe {
namespace {

template <typename T>
class Hdf5Data final : public Layer<T> {
 public:
  explicit Hdf5Data(const LayerSpec& spec)
      : Layer<T>(spec), param_(spec.param().hdf5_data_param()) {
    spec.Check(!param_.source().empty(), "hdf5_data_param.source", "source is missing",
               "give a text file that names HDF5 files, one in each line");
    spec.Check(param_.batch_size() > 0, "hdf5_data_param.batch_size", "batch_size is 0 or missing",
               "give the number of rows of one pass, e.g. batch_size: 64");
    spec.Check(!spec.param().has_transform_param(), "transform_param",
               "transform_param has no meaning here", "store the data as the net shall see them");
  }

  Shapes InferShapes(const Shapes& /*bottom*/) const override {
    return TopShapes(param_.batch_size());
  }

  void Reshape(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) override {
    const Shapes shapes = TopShapes(Rows(run.replica));
    for (size_t i = 0; i < top.size(); ++i) top[i]->Reshape(shapes[i]);
  }

  void Forward(RunContext& run, Blobs<T> /*bottom*/, Blobs<T> top) override {
    if (prefetcher_ == nullptr) {
      reader_ = std::make_unique<Hdf5Reader<T>>(rows());
      prefetcher_ = std::make_unique<Prefetcher<T>>(
          static_cast<int>(std::min<uint32_t>(this->spec().param().data_param().prefetch(), 1024)),
          [this](const Pass& pass, const Replica& replica, Batch<T>* batch) {
            Make(pass, replica, batch);
          });
    }
    const WaitScope wait(run.trace);
    const Batch<T>& batch = prefetcher_->Take(run.pass, run.replica);
    for (size_t i = 0; i < top.size(); ++i) top[i]->SetData(run.stream, batch.tops[i]);
  }

  void Backward(RunContext&, Blobs<T>, const std::vector<bool>&, Blobs<T>) override {}

 private:
  // Opened at the first question for shapes; no thread starts before the first batch is asked for.
  const Hdf5Rows& rows() const {
    if (rows_ == nullptr) {
      const auto& tops = this->spec().param().top();
      rows_ = std::make_unique<Hdf5Rows>(param_.source(),
                                         std::vector<std::string>(tops.begin(), tops.end()));
    }
    return *rows_;
  }

  Shapes TopShapes(int64_t batch) const {
    Shapes shapes;
    for (const Shape& item : rows().items()) {
      std::vector<int64_t> dims = {batch};
      dims.insert(dims.end(), item.dims().begin(), item.dims().end());
      shapes.push_back(Shape(dims));
    }
    return shapes;
  }

  Dealer MakeDealer() const {
    return {.records = rows().size(),
            .batch = param_.batch_size(),
            .deal = this->spec().phase() == TRAIN};
  }

  int64_t Rows(const Replica& replica) const {
    const int64_t rows = MakeDealer().Rows(replica);
    this->spec().Check(rows > 0, "hdf5_data_param.batch_size",
                       fmt::format("a global batch of {} leaves nothing for worker {} of {}",
                                   replica.global_batch, replica.index, replica.count),
                       "use a larger global batch or fewer workers");
    return rows;
  }

  // In the prefetcher's thread.
  void Make(const Pass& pass, const Replica& replica, Batch<T>* batch) {
    const Dealer dealer = MakeDealer();
    const uint64_t key =
        MixSeed(MakeRandomKey(pass.seed, this->name(), 0).key, HashName("shuffle"));
    const int64_t rows = Rows(replica);
    Resize(rows, batch);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t position = dealer.Position(pass, replica, row);
      const std::vector<const T*>& values =
          reader_->Row(param_.shuffle(), key, position / dealer.records, position % dealer.records);
      for (size_t i = 0; i < values.size(); ++i) {
        const int64_t count = rows_->items()[i].Count();
        std::copy_n(values[i], count, batch->tops[i].data() + row * count);
      }
    }
  }

  void Resize(int64_t rows, Batch<T>* batch) const {
    try {
      batch->tops.resize(rows_->items().size());
      for (size_t i = 0; i < batch->tops.size(); ++i) {
        batch->tops[i].resize(static_cast<size_t>(rows * rows_->items()[i].Count()));
      }
    } catch (const std::exception&) {  // bad_alloc, length_error
      this->spec().Fail("hdf5_data_param.batch_size",
                        fmt::format("there is no memory for a batch of {} rows", rows),
                        "use a smaller batch_size");
    }
  }

  const HDF5DataParameter param_;
  mutable std::unique_ptr<const Hdf5Rows> rows_;
  std::unique_ptr<Hdf5Reader<T>> reader_;      // the prefetcher's thread's
  std::unique_ptr<Prefetcher<T>> prefetcher_;  // last: its thread uses all the above
};

const RegisterLayer<Hdf5Data> kRegistered{{.type = "HDF5Data",
                                           .bottoms = {0, 0},
                                           .tops = {1, Arity::kAny},
                                           .summary = "Rows of HDF5 files, one dataset per top.",
                                           .is_data = true}};

}  // namespace
}  // namespace carafe
