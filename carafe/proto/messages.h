// Caffe's messages, as protobuf generated them from carafe.proto. Included by the folders that read
// settings; never by kernels (nvcc would need 7 s a file for it).
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "carafe.pb.h"
#pragma GCC diagnostic pop

namespace carafe {

using caffe::AccuracyParameter;
using caffe::ArgMaxParameter;
using caffe::BatchNormParameter;
using caffe::BiasParameter;
using caffe::BlobProto;
using caffe::BlobProtoVector;
using caffe::BlobShape;
using caffe::CarafeParallelDataParameter;
using caffe::ClipParameter;
using caffe::ConcatParameter;
using caffe::ContrastiveLossParameter;
using caffe::ConvolutionParameter;
using caffe::CropParameter;
using caffe::DataParameter;
using caffe::Datum;
using caffe::DropoutParameter;
using caffe::DummyDataParameter;
using caffe::EltwiseParameter;
using caffe::ELUParameter;
using caffe::EmbedParameter;
using caffe::ExpParameter;
using caffe::FillerParameter;
using caffe::FlattenParameter;
using caffe::HDF5DataParameter;
using caffe::HDF5OutputParameter;
using caffe::HingeLossParameter;
using caffe::ImageDataParameter;
using caffe::InfogainLossParameter;
using caffe::InnerProductParameter;
using caffe::InputParameter;
using caffe::InterpParameter;
using caffe::LayerParameter;
using caffe::LogParameter;
using caffe::LossParameter;
using caffe::LRNParameter;
using caffe::MemoryDataParameter;
using caffe::MVNParameter;
using caffe::NetParameter;
using caffe::NetState;
using caffe::NetStateRule;
using caffe::NormalizeParameter;
using caffe::ParameterParameter;
using caffe::ParamSpec;
using caffe::PermuteParameter;
using caffe::Phase;
using caffe::PoolingParameter;
using caffe::PowerParameter;
using caffe::PReLUParameter;
using caffe::PythonParameter;
using caffe::RecurrentParameter;
using caffe::ReductionParameter;
using caffe::ReLUParameter;
using caffe::ReshapeParameter;
using caffe::ScaleParameter;
using caffe::ShuffleChannelParameter;
using caffe::SigmoidParameter;
using caffe::SliceParameter;
using caffe::SmoothL1LossParameter;
using caffe::SoftmaxParameter;
using caffe::SolverParameter;
using caffe::SolverState;
using caffe::SPPParameter;
using caffe::SwishParameter;
using caffe::TanHParameter;
using caffe::TEST;
using caffe::ThresholdParameter;
using caffe::TileParameter;
using caffe::TRAIN;
using caffe::TransformationParameter;
using caffe::UpsampleParameter;
using caffe::V0LayerParameter;
using caffe::V1LayerParameter;
using caffe::WindowDataParameter;

}  // namespace carafe
