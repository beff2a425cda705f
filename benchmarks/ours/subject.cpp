#include "benchmarks/ours/subject.h"

#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "carafe/base/timer.h"
#include "carafe/net/multiply_adds.h"

namespace carafe {
namespace {

constexpr uint64_t kSeed = 1;
constexpr size_t kBucketBytes = size_t{4} << 20;  // one worker sends nothing

Shapes ShapesOf(const std::vector<Blob<float>*>& blobs) {
  Shapes shapes;
  for (const Blob<float>* blob : blobs) shapes.push_back(blob->shape());
  return shapes;
}

}  // namespace

Subject::Subject(const SubjectOptions& options) : stream_(CpuDevice(), options.threads) {
  if (!options.solver.empty()) {
    solver_ = std::make_unique<Solver<float>>(LoadSolverSpec(options.solver), stream_,
                                              SolverOptions{.seed = kSeed, .share_memory = true});
    solver_->Connect("allreduce", alone_, {.bucket_bytes = kBucketBytes});
  } else {
    NetState state;
    state.set_phase(TEST);
    net_ = std::make_unique<Net<float>>(LoadNetSpec(options.model), state);
    net_->Initialise(stream_, kSeed);
    net_->ShareMemory(MemorySharing::kForward, std::make_shared<MemoryPool>(),
                      {net_->blob_names()[static_cast<size_t>(net_->bottom_ids().back()[0])]});
    FillStatistics();
  }
  FillInputs(options.classes);
}

// Labels are classes; `cont` says that every sequence starts at its first step; all else is normal
// with mean 0 and deviation 1.
void Subject::FillInputs(int classes) {
  for (const int id : net().input_ids()) {
    Blob<float>& blob = *net().blobs()[static_cast<size_t>(id)];
    const std::string& name = net().blob_names()[static_cast<size_t>(id)];
    RandomSequence random(MixSeed(kSeed, HashName(name)));
    std::vector<float> values(static_cast<size_t>(blob.count()));
    const auto first_step = static_cast<size_t>(blob.count() / blob.shape()[0]);
    for (size_t i = 0; i < values.size(); ++i) {
      if (name == "label") {
        values[i] = static_cast<float>(random.NextBelow(static_cast<uint64_t>(classes)));
      } else if (name == "cont") {
        values[i] = i < first_step ? 0 : 1;
      } else {
        values[i] = static_cast<float>(random.NextGaussian());
      }
    }
    blob.SetData(stream_, values);
  }
}

// A deployed BatchNorm has seen data: means around 0, variances around 1, one batch counted.
void Subject::FillStatistics() {
  for (const auto& layer : net_->layers()) {
    if (layer->spec().param().type() != "BatchNorm") continue;
    RandomSequence random(MixSeed(kSeed, HashName(layer->name())));
    for (int index = 0; index < 3; ++index) {
      Blob<float>& blob = layer->blob(index);
      std::vector<float> values(static_cast<size_t>(blob.count()));
      for (float& value : values) {
        const auto draw = static_cast<float>(random.NextUniform());  // [0, 1)
        value = index == 0 ? 0.2f * draw - 0.1f : index == 1 ? 0.5f + draw : 1.0f;
      }
      blob.SetData(stream_, values);
    }
  }
}

void Subject::Iterate() {
  if (solver_) {
    loss_ = solver_->Step().loss;
    solver_->Drain();
  } else {
    RunContext run{.stream = stream_};
    net_->Forward(run);
  }
  stream_.Synchronize();
}

std::vector<double> Subject::Run(int iterations) {
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
double Subject::Flop() const {
  double sum = 0;
  for (size_t l = 0; l < net().layers().size(); ++l) {
    Layer<float>& layer = *net().layers()[l];
    Shapes params;
    for (const auto& blob : layer.blobs()) params.push_back(blob->shape());
    const LayerParameter& param = layer.spec().param();
    const Shapes bottoms = ShapesOf(net().bottoms()[l]), tops = ShapesOf(net().tops()[l]);
    const auto forward = static_cast<double>(MultiplyAdds(param, bottoms, tops, params));
    if (forward == 0) continue;
    sum += forward;
    if (!solver_ || !net().layer_needs_backward()[l]) continue;
    sum += forward;
    if (net().propagate_down()[l][0]) {
      sum += forward;
    } else if (param.type() == "LSTM") {
      sum += static_cast<double>(bottoms[0].Count(0, 2) * params.back().Count());
    }
  }
  return 2 * sum;
}

int64_t Subject::Learned() const {
  int64_t count = 0;
  for (const Param<float>& param : net().params()) count += param.learned ? param.blob->count() : 0;
  return count;
}

std::vector<Tensor> Subject::Start() {
  std::vector<Tensor> tensors;
  for (const int id : net().input_ids()) {
    const Blob<float>& blob = *net().blobs()[static_cast<size_t>(id)];
    tensors.push_back(
        {net().blob_names()[static_cast<size_t>(id)], blob.shape(), blob.DataToHost(stream_)});
  }
  for (const Param<float>& param : net().params()) {
    tensors.push_back({param.name, param.blob->shape(), param.blob->DataToHost(stream_)});
  }
  return tensors;
}

std::vector<Tensor> Subject::Result() {
  Iterate();
  if (!solver_) {
    const Blob<float>& scores = *net().bottoms().back()[0];
    return {{"scores", scores.shape(), scores.DataToHost(stream_)}};
  }
  std::vector<Tensor> tensors = {{"loss", {1}, {static_cast<float>(loss_)}}};
  for (size_t p = 0; p < net().params().size(); ++p) {
    const Param<float>& param = net().params()[p];
    if (!param.learned) continue;
    std::vector<float> values = solver_->history()[p].DataToHost(stream_);
    for (float& value : values) value /= static_cast<float>(solver_->rate() * param.lr_mult);
    tensors.push_back({param.name, param.blob->shape(), std::move(values)});
  }
  return tensors;
}

}  // namespace carafe
