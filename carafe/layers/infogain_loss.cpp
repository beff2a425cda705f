// SoftmaxWithLoss with a matrix H of what each answer is worth:
//   loss = -1/n sum over items and classes of H[label, c] log(max(p_c, 1e-20))
//   bottoms: scores, labels, optionally H (classes x classes); else H is the BlobProto in `source`.
//   tops: loss, optionally the probabilities
#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/kernels/loss.h"
#include "carafe/layers/softmax_loss.h"

namespace carafe {
namespace {

template <typename T>
class InfogainLoss final : public SoftmaxLossLayer<T> {
 public:
  explicit InfogainLoss(const LayerSpec& spec)
      : SoftmaxLossLayer<T>(spec, spec.param().infogain_loss_param().axis()),
        param_(spec.param().infogain_loss_param()) {
    spec.Check(!spec.param().loss_param().has_normalize(), "loss_param.normalize",
               "InfogainLoss does not know the old `normalize`",
               "use normalization: VALID, BATCH_SIZE, FULL or NONE");
    if (spec.param().bottom_size() < 3) ReadMatrix();
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shapes tops = SoftmaxLossLayer<T>::InferShapes(bottom);
    const int64_t classes = bottom[0][bottom[0].CanonicalAxis(param_.axis())];
    const int64_t count =
        bottom.size() > 2 ? bottom[2].Count() : static_cast<int64_t>(matrix_.size());
    this->spec().Check(count == classes * classes,
                       bottom.size() > 2 ? "bottom[2]" : "infogain_loss_param.source",
                       fmt::format("the matrix has {} elements, but {} classes need {} x {}", count,
                                   classes, classes, classes),
                       "give a row and a column per class");
    return tops;
  }

 private:
  void ItemLosses(Stream& stream, const ClassAxis& axis, const T* p, Blobs<T> bottom,
                  T* losses) override {
    InfogainLosses<T>(stream, axis, p, bottom[1]->data(stream), this->ignore(),
                      Matrix(stream, bottom), T(1e-20), losses);
  }
  void ScoreGradient(Stream& stream, const ClassAxis& axis, const T* p, const T* weight,
                     T normalizer, Blobs<T> bottom) override {
    InfogainGradient<T>(stream, axis, p, bottom[1]->data(stream), this->ignore(),
                        Matrix(stream, bottom), weight, normalizer,
                        bottom[0]->mutable_diff(stream));
  }
  void ReadMatrix() {
    this->spec().Check(!param_.source().empty(), "infogain_loss_param",
                       "there is neither a third bottom nor a source for the matrix",
                       "give a third bottom, or the file of a BlobProto as source");
    BlobProto proto;
    if (!proto.ParseFromString(ReadFile(param_.source()))) {
      throw DataError(param_.source(), -1, "this is not a BlobProto",
                      "write the matrix as a binary BlobProto of shape classes x classes");
    }
    matrix_.assign(proto.data().begin(), proto.data().end());
    if (matrix_.empty()) matrix_.assign(proto.double_data().begin(), proto.double_data().end());
  }
  const T* Matrix(Stream& stream, Blobs<T> bottom) {
    if (bottom.size() > 2) return bottom[2]->data(stream);
    if (device_matrix_.count() != static_cast<int64_t>(matrix_.size())) {
      device_matrix_.Reshape({static_cast<int64_t>(matrix_.size())});
      device_matrix_.SetData(stream, matrix_);
    }
    return device_matrix_.data(stream);
  }

  const InfogainLossParameter param_;
  std::vector<T> matrix_;  // from the file
  Blob<T> device_matrix_{Shape{0}};
};

const RegisterLayer<InfogainLoss> kRegistered{
    {.type = "InfogainLoss",
     .bottoms = {2, 3},
     .tops = {1, 2},
     .summary = "Softmax loss weighted by a matrix of what each answer is worth.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
