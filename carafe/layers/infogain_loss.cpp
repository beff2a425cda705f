// SoftmaxWithLoss with a matrix H of what each answer is worth:
//   loss = -1/n sum over items and classes of H[label, c] log(max(p_c, 1e-20))
//   bottoms: scores, labels, optionally H (classes x classes); else H is the BlobProto in `source`.
//   tops: loss, optionally the probabilities
#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/kernels/loss.h"
#include "carafe/kernels/math.h"
#include "carafe/layers/loss.h"

namespace carafe {
namespace {

template <typename T>
class InfogainLoss final : public LossLayer<T> {
 public:
  explicit InfogainLoss(const LayerSpec& spec)
      : LossLayer<T>(spec),
        param_(spec.param().infogain_loss_param()),
        mode_(NormalizationOf(spec.param().loss_param(), LossParameter::VALID)),
        ignore_(spec.param().loss_param()) {
    spec.Check(!spec.param().loss_param().has_normalize(), "loss_param.normalize",
               "InfogainLoss does not know the old `normalize`",
               "use normalization: VALID, BATCH_SIZE, FULL or NONE");
    if (spec.param().bottom_size() < 3) ReadMatrix();
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    this->CheckRows(bottom);
    const ClassAxis axis = MakeClassAxis(this->spec(), bottom[0], param_.axis(), bottom[1]);
    const int64_t count =
        bottom.size() > 2 ? bottom[2].Count() : static_cast<int64_t>(matrix_.size());
    this->spec().Check(count == axis.classes * axis.classes,
                       bottom.size() > 2 ? "bottom[2]" : "infogain_loss_param.source",
                       fmt::format("the matrix has {} elements, but {} classes need {} x {}", count,
                                   axis.classes, axis.classes, axis.classes),
                       "give a row and a column per class");
    Shapes tops = {Shape{}};
    if (this->spec().param().top_size() > 1) tops.push_back(bottom[0]);
    return tops;
  }
  void Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) override {
    Stream& stream = run.stream;
    const ClassAxis axis = AxisOf(bottom);
    const T* labels = bottom[1]->data(stream);
    const LabelCount count = CountLabels(stream, axis, labels, ignore_.get());
    CheckLabels(this->spec(), count, axis.classes);
    normalizer_ = LossNormalizer(mode_, axis.items(), count.valid, axis.outer);
    Blob<T>& probabilities = Probabilities(top);
    probabilities.Reshape(bottom[0]->shape());
    T* p = probabilities.mutable_data(stream);
    SoftmaxForward(stream, axis, bottom[0]->data(stream), p);
    losses_.Reshape({axis.items()});
    T* losses = losses_.mutable_data(stream);
    InfogainLosses<T>(stream, axis, p, labels, ignore_.get(), Matrix(stream, bottom), T(1e-20),
                      losses);
    this->SetLoss(stream, top, Sum(stream, axis.items(), losses) / normalizer_);
  }
  void Backward(RunContext& run, Blobs<T> top, const std::vector<bool>& propagate_down,
                Blobs<T> bottom) override {
    this->CheckNoLabelGradient(propagate_down);
    if (propagate_down.size() > 2) this->CheckNoLabelGradient(propagate_down, 2);
    if (!propagate_down[0]) return;
    Stream& stream = run.stream;
    InfogainGradient<T>(stream, AxisOf(bottom), Probabilities(top).data(stream),
                        bottom[1]->data(stream), ignore_.get(), Matrix(stream, bottom),
                        top[0]->diff(stream), static_cast<T>(normalizer_),
                        bottom[0]->mutable_diff(stream));
  }

 private:
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
  ClassAxis AxisOf(Blobs<T> bottom) const {
    return MakeClassAxis(this->spec(), bottom[0]->shape(), param_.axis(), bottom[1]->shape());
  }
  const T* Matrix(Stream& stream, Blobs<T> bottom) {
    if (bottom.size() > 2) return bottom[2]->data(stream);
    if (device_matrix_.count() != static_cast<int64_t>(matrix_.size())) {
      device_matrix_.Reshape({static_cast<int64_t>(matrix_.size())});
      device_matrix_.SetData(stream, matrix_);
    }
    return device_matrix_.data(stream);
  }
  Blob<T>& Probabilities(Blobs<T> top) { return top.size() > 1 ? *top[1] : probabilities_; }

  const InfogainLossParameter param_;
  const LossParameter::NormalizationMode mode_;
  const IgnoreLabel ignore_;
  std::vector<T> matrix_;  // from the file
  Blob<T> device_matrix_{Shape{0}};
  double normalizer_ = 1;  // of the last Forward
  Blob<T> probabilities_, losses_;
};

const RegisterLayer<InfogainLoss> kRegistered{
    {.type = "InfogainLoss",
     .bottoms = {2, 3},
     .tops = {1, 2},
     .summary = "Softmax loss weighted by a matrix of what each answer is worth.",
     .is_loss = true}};

}  // namespace
}  // namespace carafe
