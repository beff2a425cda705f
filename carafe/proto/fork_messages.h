// The messages of fork_messages.proto, as protobuf generated them, and the part of one of Caffe's
// messages that a fork has added.
#pragma once

#include <string>

#include "carafe/proto/messages.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "fork_messages.pb.h"
#pragma GCC diagnostic pop

namespace carafe {

using caffe::AnnotatedDataParameter;
using caffe::AnnotatedDatum;
using caffe::Annotation;
using caffe::AnnotationGroup;
using caffe::BatchSampler;
using caffe::BNParameter;
using caffe::BoxAnnotatorOHEMParameter;
using caffe::BoxSampler;
using caffe::CenterLossParameter;
using caffe::DenseImageDataParameter;
using caffe::DetectionEvaluateParameter;
using caffe::DetectionOutputParameter;
using caffe::DistortionParameter;
using caffe::EmitConstraint;
using caffe::ExpansionParameter;
using caffe::ForkConvolutionParameter;
using caffe::ForkDropoutParameter;
using caffe::ForkLayerParameter;
using caffe::ForkLossParameter;
using caffe::ForkNetParameter;
using caffe::ForkPoolingParameter;
using caffe::ForkSolverParameter;
using caffe::ForkTransformationParameter;
using caffe::LabelMap;
using caffe::LabelMapItem;
using caffe::MultiBoxLossParameter;
using caffe::NonMaximumSuppressionParameter;
using caffe::NormalizedBBox;
using caffe::PriorBoxParameter;
using caffe::ProposalParameter;
using caffe::PSROIPoolingParameter;
using caffe::ReorgParameter;
using caffe::ResizeParameter;
using caffe::ROIPoolingParameter;
using caffe::SampleConstraint;
using caffe::SaveOutputParameter;
using caffe::YoloDetectionOutputParameter;
using caffe::Yolov3DetectionOutputParameter;

// A fork's fields of `message`, kept among its unknown fields: ForkPart<ForkLayerParameter>(layer).
template <typename Fork, typename Message>
Fork ForkPart(const Message& message) {
  std::string bytes;
  message.GetReflection()->GetUnknownFields(message).SerializeToString(&bytes);
  Fork fork;
  fork.ParseFromString(bytes);
  return fork;
}

}  // namespace carafe
