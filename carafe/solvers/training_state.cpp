#include "carafe/solvers/training_state.h"

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

#include "carafe/net/weights.h"

namespace carafe {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// "EXCHANGE BUCKET_MB\n", then lines of algorithms: until 259e51b.
void ConvertPlanText(TrainingState* state) {
  if (state->has_plan() && !state->has_training_plan()) {
    const std::string& text = state->plan();
    const size_t end = text.find('\n');
    const std::string first = text.substr(0, end);
    const size_t space = first.rfind(' ');
    TrainingPlan& plan = *state->mutable_training_plan();
    plan.set_exchange(first.substr(0, space));
    if (space != std::string::npos) {
      plan.set_bucket_mb(std::strtod(first.c_str() + space, nullptr));
    }
    if (end != std::string::npos) SetConvolutionLines(text.substr(end + 1), &plan);
  }
  state->clear_plan();
}

// Three fields beside the others: until 259e51b.
void ConvertPlateau(TrainingState* state) {
  if (state->has_plateau_since() && !state->rate_policy().has_plateau()) {
    PlateauState& plateau = *state->mutable_rate_policy()->mutable_plateau();
    plateau.set_lowest(state->plateau_lowest());
    plateau.set_since(state->plateau_since());
    *plateau.mutable_losses() = state->plateau_losses();
  }
  state->clear_plateau_lowest();
  state->clear_plateau_since();
  state->clear_plateau_losses();
}

#pragma GCC diagnostic pop

}  // namespace

template <typename T>
int64_t FileBatch(Solver<T>& solver) {
  for (const auto& tops : solver.net().tops()) {
    if (!tops.empty() && tops[0]->shape().rank() > 0) return tops[0]->shape()[0];
  }
  return 1;
}

template <typename T>
int64_t GlobalBatch(Solver<T>& solver) {
  return solver.replica().GlobalRows(FileBatch(solver));
}

template <typename T>
TrainingState Capture(Solver<T>& solver, int64_t rows, TrainingState known) {
  known.set_iteration(solver.iteration());
  known.set_samples_seen(solver.iteration() * solver.param().iter_size() * rows +
                         solver.sample_offset());
  known.set_seed(solver.seed());
  known.set_workers(solver.replica().count);
  known.set_global_batch(rows);
  known.set_weights_hash(WeightsHash(solver.stream(), solver.net()));
  *known.mutable_rate_policy() = solver.learning_rate().state();
  return known;
}

template <typename T>
void Apply(const TrainingState& state, int64_t rows, Solver<T>& solver) {
  solver.set_iteration(state.iteration());
  if (state.has_seed()) solver.set_seed(state.seed());
  if (state.has_samples_seen()) {
    solver.set_sample_offset(state.samples_seen() -
                             state.iteration() * solver.param().iter_size() * rows);
  }
  solver.learning_rate().set_state(state.rate_policy());
}

StateHead ToStateHead(const TrainingState& state, const std::string& weights_path) {
  StateHead stored;
  stored.set_iter(static_cast<int>(state.iteration()));
  stored.set_learned_net(weights_path);
  stored.set_current_step(state.rate_policy().step());
  *stored.mutable_carafe() = state;
  return stored;
}

TrainingState FromStateHead(const StateHead& stored) {
  TrainingState state = stored.carafe();
  if (!state.has_iteration()) state.set_iteration(stored.iter());
  if (!state.has_rate_policy()) {
    state.mutable_rate_policy()->set_step(stored.current_step());
  }
  ConvertPlanText(&state);
  ConvertPlateau(&state);
  return state;
}

std::string ConvolutionLines(const TrainingPlan& plan) {
  std::string lines;
  for (const TrainingPlan::Convolution& choice : plan.convolutions()) {
    lines += choice.key();
    if (choice.has_algorithm()) lines += "=" + choice.algorithm();
    lines += "\n";
  }
  return lines;
}

void SetConvolutionLines(const std::string& lines, TrainingPlan* plan) {
  plan->clear_convolutions();
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    TrainingPlan::Convolution& choice = *plan->add_convolutions();
    const size_t equals = line.find('=');
    choice.set_key(line.substr(0, equals));
    if (equals != std::string::npos) choice.set_algorithm(line.substr(equals + 1));
  }
}

#define CARAFE_INSTANTIATE(T)                                            \
  template int64_t FileBatch<T>(Solver<T>&);                             \
  template int64_t GlobalBatch<T>(Solver<T>&);                           \
  template TrainingState Capture<T>(Solver<T>&, int64_t, TrainingState); \
  template void Apply<T>(const TrainingState&, int64_t, Solver<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
