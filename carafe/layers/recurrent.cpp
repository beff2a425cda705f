#include "carafe/layers/recurrent.h"

#include <fmt/format.h>

#include <algorithm>

#include "carafe/kernels/gemm.h"
#include "carafe/kernels/math.h"
#include "carafe/kernels/recurrent.h"
#include "carafe/layers/multiply_adds.h"
#include "carafe/layers/packed_product.h"
#include "carafe/layers/worker_rows.h"

namespace carafe {

template <typename T>
RecurrentLayer<T>::RecurrentLayer(const LayerSpec& spec, int gates, int states)
    : Layer<T>(spec),
      param_(spec.param().recurrent_param()),
      gates_per_unit_(gates),
      has_static_(spec.param().bottom_size() > 2 + (param_.expose_hidden() ? states : 0)),
      states_(static_cast<size_t>(states)) {
  spec.Check(param_.num_output() > 0, "recurrent_param.num_output", "num_output is 0 or missing",
             "give the number of units, e.g. num_output: 256");
  const int exposed = param_.expose_hidden() ? states : 0;
  const int bottoms = spec.param().bottom_size();
  spec.Check(bottoms >= 2 + exposed && bottoms <= 3 + exposed, "bottom",
             fmt::format("there are {} bottoms", bottoms),
             fmt::format("give x, cont, optionally a static input{}",
                         exposed > 0 ? fmt::format(", and {} initial states", exposed) : ""));
  spec.Check(spec.param().top_size() == 1 + exposed, "top",
             fmt::format("there are {} tops", spec.param().top_size()),
             fmt::format("give {}: the output{}", 1 + exposed,
                         exposed > 0 ? " and the final states" : ""));
}

template <typename T>
typename RecurrentLayer<T>::Dims RecurrentLayer<T>::DimsOf(const Shapes& bottom) const {
  const LayerSpec& spec = this->spec();
  const Shape& x = bottom[kX];
  spec.Check(x.rank() >= 2, "bottom[0]",
             fmt::format("the input must have axes (T, N, ..), not {}", x.ToString()),
             "put the steps along axis 0 and the sequences along axis 1");
  spec.Check(bottom[kCont] == x.First(2), "bottom[1]",
             fmt::format("cont must have the shape (T, N) of the input {}, not {}", x.ToString(),
                         bottom[kCont].ToString()),
             "give one number per step and sequence");
  Dims d{x[0], x[1], x.Count(2), 0, param_.num_output(), param_.num_output() * gates_per_unit_};
  if (has_static_) {
    const Shape& fixed = bottom[kStatic];
    spec.Check(fixed.rank() >= 1 && fixed[0] == d.sequences, "bottom[2]",
               fmt::format("the static input must have axes (N, ..) with N = {}, not {}",
                           d.sequences, fixed.ToString()),
               "give one row per sequence");
    d.fixed = fixed.Count(1);
  }
  for (size_t i = first_state(); i < bottom.size(); ++i) {
    spec.Check(bottom[i] == Shape({1, d.sequences, d.units}), fmt::format("bottom[{}]", i),
               fmt::format("an initial state must have the shape (1, {}, {}), not {}", d.sequences,
                           d.units, bottom[i].ToString()),
               "give one state per sequence");
  }
  return d;
}

template <typename T>
const typename RecurrentLayer<T>::Dims& RecurrentLayer<T>::DimsOf(Blobs<T> bottom) {
  const auto same = [](const Blob<T>* blob, const Shape& shape) { return blob->shape() == shape; };
  if (!std::ranges::equal(bottom, known_, same)) {
    Shapes shapes;
    for (const Blob<T>* blob : bottom) shapes.push_back(blob->shape());
    dims_ = DimsOf(shapes);
    known_ = std::move(shapes);
  }
  return dims_;
}

template <typename T>
Shapes RecurrentLayer<T>::InferShapes(const Shapes& bottom) const {
  const Dims d = DimsOf(bottom);
  Shapes tops = {{d.steps, d.sequences, d.units}};
  if (param_.expose_hidden()) {
    for (size_t s = 0; s < states_.size(); ++s) tops.push_back({1, d.sequences, d.units});
  }
  return tops;
}

template <typename T>
std::vector<ParamDef> RecurrentLayer<T>::DeclareParams(const Shapes& bottom) const {
  const Dims d = DimsOf(bottom);
  std::vector<ParamDef> params = {{{d.gates, d.input}, param_.weight_filler()},
                                  {{d.gates}, param_.bias_filler()}};
  if (has_static_) params.push_back({{d.gates, d.fixed}, param_.weight_filler()});
  params.push_back({{d.gates, d.units}, param_.weight_filler()});
  for (const ParamDef& def : CellParams()) params.push_back(def);
  return params;
}

// Every matrix is applied at each step, but that of the static input (blob 2) once per sequence.
template <typename T>
int64_t RecurrentLayer<T>::MultiplyAdds(const Shapes& bottom) const {
  const Dims d = DimsOf(bottom);
  const std::vector<ParamDef> params = DeclareParams(bottom);
  int64_t sum = 0;
  for (int i = 0; i < Count(params); ++i) {
    if (At(params, i).shape.rank() < 2) continue;
    const int64_t times = has_static_ && i == 2 ? d.sequences : d.steps * d.sequences;
    sum = CheckedSum(sum, CheckedProduct(times, At(params, i).shape.Count()));
  }
  return sum;
}

// Before the first step: the exposed bottoms, or where the last Forward ended (0 at first, and when
// the number of sequences has changed).
template <typename T>
void RecurrentLayer<T>::PrepareStates(Stream& stream, const Dims& d, Blobs<T> bottom) {
  const size_t n = static_cast<size_t>(d.state());
  for (size_t s = 0; s < states_.size(); ++s) {
    Blob<T>& states = states_[s];
    const Shape before = states.shape(), now{d.steps + 1, d.sequences, d.units};
    const bool goes_on = before.rank() == 3 && before.Count(1) == now.Count(1);
    if (before != now) {
      Blob<T> other(now);
      if (goes_on) {
        stream.Copy(other.mutable_data(stream), states.data(stream) + (before[0] - 1) * d.state(),
                    n);
      }
      states = other;
    } else {
      T* first = states.mutable_data(stream);
      stream.Copy(first, first + d.steps * d.state(), n);
    }
    if (param_.expose_hidden()) {
      stream.Copy(states.mutable_data(stream), bottom[first_state() + s]->data(stream), n);
    }
  }
}

template <typename T>
void RecurrentLayer<T>::Forward(RunContext& run, Blobs<T> bottom, Blobs<T> top) {
  Stream& stream = run.stream;
  const Dims d = DimsOf(bottom);
  const int64_t rows = d.steps * d.sequences, step = d.sequences * d.gates;
  const int64_t all_rows = RowsOfAllWorkers(*this, run.replica, rows);
  PrepareStates(stream, d, bottom);
  gates_.Reshape({d.steps, d.sequences, d.gates});
  hidden_in_.Reshape({d.steps, d.sequences, d.units});
  T* gates = gates_.mutable_data(stream);
  PackedProduct<T>(stream, Op::kTrans, d.input, d.gates, all_rows, this->blob(0).data(stream),
                   &packed_)
      .MultiplyAddRow(rows, bottom[kX]->data(stream), this->blob(1).data(stream), gates);
  if (has_static_) {
    fixed_.Reshape({d.sequences, d.gates});
    T* fixed = fixed_.mutable_data(stream);
    Gemm<T>(stream, Op::kNone, Op::kTrans, d.sequences, d.gates, d.fixed, 1,
            bottom[kStatic]->data(stream), this->blob(2).data(stream), 0, fixed);
    AddToRows<T>(stream, d.steps, step, fixed, gates);
  }
  const PackedProduct<T> product(stream, Op::kTrans, d.units, d.gates, all_rows,
                                 this->blob(hidden_blob()).data(stream), &packed_);
  const T* cont = bottom[kCont]->data(stream);
  for (int64_t t = 0; t < d.steps; ++t) {
    T* hidden = hidden_in_.mutable_data(stream) + t * d.state();
    ScaleRows<T>(stream, d.sequences, d.units, cont + t * d.sequences, state(stream, d, 0, t),
                 hidden);
    product.Multiply(Op::kNone, d.sequences, hidden, /*add=*/true, gates + t * step);
    Step(stream, d, t, cont + t * d.sequences, gates + t * step);
  }
  Output(stream, d, state(stream, d, 0, 1), top[0]->mutable_data(stream));
  if (!param_.expose_hidden()) return;
  for (size_t s = 0; s < states_.size(); ++s) {
    stream.Copy(top[1 + s]->mutable_data(stream), state(stream, d, static_cast<int>(s), d.steps),
                static_cast<size_t>(d.state()));
  }
}

template <typename T>
void RecurrentLayer<T>::Backward(RunContext& run, Blobs<T> top,
                                 const std::vector<bool>& propagate_down, Blobs<T> bottom) {
  Stream& stream = run.stream;
  if (propagate_down[kCont]) {
    this->spec().Fail("propagate_down", "cont has no gradient",
                      "take it from a layer without parameters");
  }
  const Dims d = DimsOf(bottom);
  const int64_t rows = d.steps * d.sequences, step = d.sequences * d.gates;
  const int64_t all_rows = RowsOfAllWorkers(*this, run.replica, rows);
  hidden_gradient_.Reshape({d.steps, d.sequences, d.units});
  step_gradient_.Reshape({d.sequences, d.units});
  T* from_output = hidden_gradient_.mutable_data(stream);
  OutputBackward(stream, d, state(stream, d, 0, 1), top[0]->data(stream), top[0]->diff(stream),
                 from_output);
  BeginBackward(stream, d);
  const PackedProduct<T> product(stream, Op::kNone, d.gates, d.units, all_rows,
                                 this->blob(hidden_blob()).data(stream), &packed_);
  const T* cont = bottom[kCont]->data(stream);
  const T* gates = gates_.data(stream);
  T* dgates = gates_.mutable_diff(stream);
  T* later = step_gradient_.mutable_data(stream);
  for (int64_t t = d.steps - 1; t >= 0; --t) {
    T* dh = from_output + t * d.state();
    if (t < d.steps - 1) Axpy<T>(stream, d.state(), 1, later, dh);
    StepBackward(stream, d, t, gates + t * step, dh, dgates + t * step);
    if (t == 0) break;
    product.Multiply(Op::kNone, d.sequences, dgates + t * step, /*add=*/false, later);
    ScaleRows<T>(stream, d.sequences, d.units, cont + t * d.sequences, later, later);
  }
  WeightGradients(stream, d, bottom);
  if (propagate_down[kX]) {
    PackedProduct<T>(stream, Op::kNone, d.gates, d.input, all_rows, this->blob(0).data(stream),
                     &packed_)
        .Multiply(Op::kNone, rows, dgates, /*add=*/false, bottom[kX]->mutable_diff(stream));
  }
  if (has_static_ && propagate_down[kStatic]) {
    Gemm<T>(stream, Op::kNone, Op::kNone, d.sequences, d.fixed, d.gates, 1, fixed_.diff(stream),
            this->blob(2).data(stream), 0, bottom[kStatic]->mutable_diff(stream));
  }
  for (size_t i = first_state(); i < bottom.size(); ++i) {
    if (propagate_down[i]) bottom[i]->ZeroDiff(stream);
  }
}

template <typename T>
void RecurrentLayer<T>::WeightGradients(Stream& stream, const Dims& d, Blobs<T> bottom) {
  const int64_t rows = d.steps * d.sequences;
  const T* dgates = gates_.diff(stream);
  if (this->param_propagate_down(0)) {
    PackedProduct<T>(stream, Op::kNone, rows, d.input, d.gates, bottom[kX]->data(stream), &packed_)
        .Multiply(Op::kTrans, d.gates, dgates, /*add=*/true, this->blob(0).mutable_diff(stream));
  }
  if (this->param_propagate_down(1)) {
    AddColumnSums<T>(stream, rows, d.gates, dgates, this->blob(1).mutable_diff(stream));
  }
  if (has_static_) {
    fixed_.ZeroDiff(stream);
    T* dfixed = fixed_.mutable_diff(stream);
    AddColumnSums<T>(stream, d.steps, d.sequences * d.gates, dgates, dfixed);
    if (this->param_propagate_down(2)) {
      Gemm<T>(stream, Op::kTrans, Op::kNone, d.gates, d.fixed, d.sequences, 1, dfixed,
              bottom[kStatic]->data(stream), 1, this->blob(2).mutable_diff(stream));
    }
  }
  if (this->param_propagate_down(hidden_blob())) {
    PackedProduct<T>(stream, Op::kNone, rows, d.units, d.gates, hidden_in_.data(stream), &packed_)
        .Multiply(Op::kTrans, d.gates, dgates, /*add=*/true,
                  this->blob(hidden_blob()).mutable_diff(stream));
  }
}

// The states before the first step are still there after one Forward: they become the last ones,
// from which the next Forward starts.
template <typename T>
bool RecurrentLayer<T>::RewindForward(Stream& stream, int passes) {
  if (param_.expose_hidden()) return true;
  if (passes != 1) return false;
  for (Blob<T>& states : states_) {
    if (states.shape().rank() != 3) continue;  // no Forward has run
    T* first = states.mutable_data(stream);
    stream.Copy(first + (states.shape()[0] - 1) * states.shape().Count(1), first,
                static_cast<size_t>(states.shape().Count(1)));
  }
  return true;
}

template class RecurrentLayer<float>;
template class RecurrentLayer<double>;

}  // namespace carafe
