#include "carafe/proto/fork_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace carafe {
namespace {

constexpr std::string_view kPython = "write it as a Python layer (docs/python.md)";
constexpr std::string_view kDeploy = "to run the net, take its deploy.prototxt";
constexpr std::string_view kSegData = "convert images and labels to HDF5 and take HDF5Data";
constexpr std::string_view kOutput =
    "remove it; `carafe extract_features` and HDF5Output write blobs";
constexpr std::string_view kYolo = "MobileNet-YOLO";

// clang-format off
constexpr ForkLayer kLayers[] = {
    {"VideoData", "SSD", "give the images with an Input layer from Python"},
    {"EvalDetection", "YOLO for Caffe", "remove it: its bottom holds the predictions"},
    {"RegionLoss", "YOLO for Caffe", kDeploy},
    {"Yolov3", kYolo, kDeploy},
    {"YoloSeg", kYolo, kDeploy},
    {"SegmentationEvaluate", kYolo, "remove it, or score the predictions with Accuracy"},
    {"AssistedExcitation", kYolo, kDeploy},
    {"LaneData", kYolo, kDeploy},
    {"DetectNetTransformation", "NVCaffe (DetectNet)", kDeploy},
    {"TRT", "NVCaffe", "take the net that TensorRT was given"},
    {"MultiStageMeanfield", "CRF-RNN", kPython},
    {"MULTI_STAGE_MEANFIELD", "CRF-RNN", kPython},
    {"DenseCRF", "DeepLab", kPython},
    {"MatWrite", "DeepLab", kOutput},
    {"MAT_WRITE", "DeepLab", kOutput},
    {"MatRead", "DeepLab", "convert the data to HDF5 and take HDF5Data"},
    {"MAT_READ", "DeepLab", "convert the data to HDF5 and take HDF5_DATA"},
    {"ImageSegData", "DeepLab", kSegData},
    {"IMAGE_SEG_DATA", "DeepLab", kSegData},
    {"SegAccuracy", "DeepLab", "take Accuracy with ignore_label"},
    {"SEG_ACCURACY", "DeepLab", "take ACCURACY with ignore_label"},
    {"INTERP", "DeepLab", "write the net with `layer`, whose type is Interp"},
    {"PADDING", "DeepLab", "write the net with `layer`, and take Crop for a negative padding"},
    {"CROP", "FCN before Caffe 1.0", "write the net with `layer`, whose type is Crop"},
    {"Correlation", "FlowNet", kPython},
    {"FlowWarp", "FlowNet 2.0", kPython},
    {"Resample", "FlowNet", "take Interp, or Upsample for whole factors"},
    {"DataAugmentation", "FlowNet", kDeploy},
    {"Accum", "SegNet-like nets of OpenCV's tests", "take Eltwise"},
    {"ROIAlign", "Mask R-CNN", kPython},
    {"MarginInnerProduct", "SphereFace", kDeploy},
};
// clang-format on

}  // namespace

const ForkLayer* FindForkLayer(std::string_view type) {
  const ForkLayer* found = std::ranges::find(kLayers, type, &ForkLayer::type);
  return found == std::end(kLayers) ? nullptr : found;
}

std::span<const ForkLayer> ForkLayers() { return kLayers; }

void ThrowForkLayer(const Location& at, const std::string& name, const ForkLayer& layer) {
  throw ConfigError(at,
                    fmt::format("layer \"{}\": {} is a layer of {}, which is not built here", name,
                                layer.type, layer.fork),
                    std::string(layer.fix));
}

}  // namespace carafe
