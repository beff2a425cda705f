// The messages of training_state.proto, as protobuf generated them.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "training_state.pb.h"
#pragma GCC diagnostic pop

namespace carafe {

using caffe::PlateauState;
using caffe::RatePolicyState;
using caffe::StateFileFacts;
using caffe::StateHead;
using caffe::TensorPart;
using caffe::TrainingPlan;
using caffe::TrainingState;

}  // namespace carafe
