// TrainingState between the objects of a run and its files. Capture and Apply are the two places
// that know which object keeps a fact; a fact that no other object keeps stays in the message that
// the trainer holds, and needs no line here.
#pragma once

#include <cstdint>
#include <string>

#include "carafe/proto/state_messages.h"
#include "carafe/solvers/solver.h"

namespace carafe {

// Rows of one pass of all workers: --global_batch, or the file's batch for each worker. For a
// solver that has not run yet: layers may change their shapes later.
template <typename T>
int64_t GlobalBatch(Solver<T>& solver);
// Rows of one worker's pass as the file has them: the first axis of the first top.
template <typename T>
int64_t FileBatch(Solver<T>& solver);

// `known` with what the solver keeps: iteration, sample position, seed, rate policy, workers, and
// the hash of the weights. `rows` is its global batch. The solver has been drained.
template <typename T>
TrainingState Capture(Solver<T>& solver, int64_t rows, TrainingState known = {});

// The opposite, for all of these that the state has. With another global batch the solver continues
// at the same sample.
template <typename T>
void Apply(const TrainingState& state, int64_t rows, Solver<T>& solver);

// The message of a .solverstate, without tensors: Caffe's own fields beside ours.
StateHead ToStateHead(const TrainingState& state, const std::string& weights_path);
// Reads files of Caffe and of all versions of Carafe: older forms of a fact are converted to the
// present one.
TrainingState FromStateHead(const StateHead& stored);

// The measured algorithms of a plan as lines "SHAPE DIRECTION=ALGORITHM" (net/plan.h), and back.
std::string ConvolutionLines(const TrainingPlan& plan);
void SetConvolutionLines(const std::string& lines, TrainingPlan* plan);

}  // namespace carafe
