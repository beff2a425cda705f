#include "benchmarks/ours/subject.h"

#include "benchmarks/ours/inputs.h"
#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "carafe/base/timer.h"
#include "carafe/train/options.h"

namespace carafe {
namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kBucketBytes = size_t{4} << 20;  // one worker sends nothing

template <typename T>
Shapes ShapesOf(const std::vector<Blob<T>*>& blobs) {
  Shapes shapes;
  for (const Blob<T>* blob : blobs) shapes.push_back(blob->shape());
  return shapes;
}

template <typename T>
std::vector<float> FloatsOf(Stream& stream, const Blob<T>& blob) {
  const std::vector<T> values = blob.DataToHost(stream);
  return {values.begin(), values.end()};
}

}  // namespace

template <typename T>
Subject<T>::Subject(const SubjectOptions& options) : stream_(CpuDevice(), options.threads) {
  const AlgorithmChoices algorithms{.asked = RunOptionsFromEnvironment().algorithm};
  if (!options.solver.empty()) {
    solver_ = std::make_unique<Solver<T>>(
        LoadSolverSpec(options.solver), stream_,
        SolverOptions{.seed = kSeed, .algorithms = algorithms, .share_memory = true});
    solver_->Connect("allreduce", alone_, {.bucket_bytes = kBucketBytes});
  } else {
    NetState state;
    state.set_phase(TEST);
    net_ = std::make_unique<Net<T>>(LoadNetSpec(options.model), state, algorithms);
    net_->Initialise(stream_, kSeed);
    net_->ShareMemory(MemorySharing::kForward, std::make_shared<MemoryPool>(),
                      {net_->blob_names()[static_cast<size_t>(net_->bottom_ids().back()[0])]});
    FillStatistics();
  }
  FillInputs(stream_, net(), options.classes);
}

// A deployed BatchNorm has seen data: means around 0, variances around 1, one batch counted.
template <typename T>
void Subject<T>::FillStatistics() {
  for (const auto& layer : net_->layers()) {
    if (layer->spec().param().type() != "BatchNorm") continue;
    RandomSequence random(MixSeed(kSeed, HashName(layer->name())));
    for (int index = 0; index < 3; ++index) {
      Blob<T>& blob = layer->blob(index);
      std::vector<T> values(static_cast<size_t>(blob.count()));
      for (T& value : values) {
        const auto draw = static_cast<float>(random.NextUniform());  // [0, 1)
        value = index == 0 ? 0.2f * draw - 0.1f : index == 1 ? 0.5f + draw : 1.0f;
      }
      blob.SetData(stream_, values);
    }
  }
}

template <typename T>
void Subject<T>::Iterate() {
  if (solver_) {
    loss_ = solver_->Step().loss;
    solver_->Drain();
  } else {
    RunContext run{.stream = stream_};
    net_->Forward(run);
  }
  stream_.Synchronize();
}

template <typename T>
std::vector<double> Subject<T>::Run(int iterations) {
  std::vector<double> seconds;
  for (int i = 0; i < iterations; ++i) {
    const Timer timer;
    Iterate();
    seconds.push_back(timer.Seconds());
  }
  return seconds;
}

// Backward costs as much as Forward for the weights' gradient, and again for the bottom's; within a
// recurrent layer the gradient goes back through W_h (its last matrix) in any case.
template <typename T>
double Subject<T>::Flop() const {
  double sum = 0;
  for (size_t l = 0; l < net().layers().size(); ++l) {
    Layer<T>& layer = *net().layers()[l];
    const Shapes bottoms = ShapesOf(net().bottoms()[l]);
    const auto forward = static_cast<double>(layer.MultiplyAdds(bottoms));
    if (forward == 0) continue;
    sum += forward;
    if (!solver_ || !net().layer_needs_backward()[l]) continue;
    sum += forward;
    if (net().propagate_down()[l][0]) {
      sum += forward;
    } else if (layer.spec().param().type() == "LSTM") {
      sum += static_cast<double>(bottoms[0].Count(0, 2) * layer.blobs().back()->count());
    }
  }
  return 2 * sum;
}

template <typename T>
int64_t Subject<T>::Learned() const {
  int64_t count = 0;
  for (const Param<T>& param : net().params()) count += param.learned ? param.blob->count() : 0;
  return count;
}

template <typename T>
std::vector<Tensor> Subject<T>::Start() {
  std::vector<Tensor> tensors;
  for (const int id : net().input_ids()) {
    const Blob<T>& blob = *net().blobs()[static_cast<size_t>(id)];
    tensors.push_back(
        {net().blob_names()[static_cast<size_t>(id)], blob.shape(), FloatsOf(stream_, blob)});
  }
  for (const Param<T>& param : net().params()) {
    tensors.push_back({param.name, param.blob->shape(), FloatsOf(stream_, *param.blob)});
  }
  return tensors;
}

template <typename T>
void Subject<T>::Load(const std::vector<Tensor>& start) {
  std::vector<Blob<T>*> blobs;
  for (const int id : net().input_ids())
    blobs.push_back(net().blobs()[static_cast<size_t>(id)].get());
  for (const Param<T>& param : net().params()) blobs.push_back(param.blob);
  Ensure(blobs.size() == start.size(), "the file is of another net");
  for (size_t i = 0; i < blobs.size(); ++i) {
    const std::vector<T> values(start[i].values.begin(), start[i].values.end());
    blobs[i]->SetData(stream_, values);
  }
}

template <typename T>
std::vector<Tensor> Subject<T>::Result() {
  Iterate();
  if (!solver_) {
    const Blob<T>& scores = *net().bottoms().back()[0];
    return {{"scores", scores.shape(), FloatsOf(stream_, scores)}};
  }
  std::vector<Tensor> tensors = {{"loss", {1}, {static_cast<float>(loss_)}}};
  for (size_t p = 0; p < net().params().size(); ++p) {
    const Param<T>& param = net().params()[p];
    if (!param.learned) continue;
    std::vector<float> values = FloatsOf(stream_, solver_->history()[p]);
    for (float& value : values) value /= static_cast<float>(solver_->rate() * param.lr_mult);
    tensors.push_back({param.name, param.blob->shape(), std::move(values)});
  }
  return tensors;
}

template class Subject<float>;
template class Subject<double>;

}  // namespace carafe
