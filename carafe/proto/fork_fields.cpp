#include "carafe/proto/fork_fields.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "carafe/proto/text_scan.h"

namespace carafe {
namespace {

constexpr std::string_view kNvcaffe = "NVCaffe and Caffe-MPI 2.0";
constexpr std::string_view kPrecision = "all runs in the precision of the net, float by default";
constexpr std::string_view kReaders = "how data are read ahead is chosen by itself";
constexpr std::string_view kMomentum = "remove it: momentum stays as it is given";
constexpr std::string_view kEpochs =
    "remove it and count in iterations: an epoch has records / batch size of them";
constexpr std::string_view kMemory = "memory is shared by a plan of the whole net";
constexpr std::string_view kAlgorithms = "algorithms are chosen by themselves";
constexpr std::string_view kFloat = "all runs in float";
constexpr std::string_view kLars =
    "remove it; a rate for each layer by the size of its weights is type: \"LARS\" with "
    "trust_coefficient";
constexpr std::string_view kAugmentation =
    "remove it, and change the images beforehand: mirror and crop_size are drawn at random here";
constexpr std::string_view kSamplers =
    "remove it: batch_sampler, expand_param and distort_param "
    "are those of SSD";

// clang-format off
constexpr ForkField kFields[] = {
    {"NetParameter", "default_forward_type", kNvcaffe, true, "", kPrecision},
    {"NetParameter", "default_backward_type", kNvcaffe, true, "", kPrecision},
    {"NetParameter", "default_forward_math", kNvcaffe, true, "", kPrecision},
    {"NetParameter", "default_backward_math", kNvcaffe, true, "", kPrecision},
    {"NetParameter", "default_cudnn_math_override", kNvcaffe, true, "", kPrecision},
    {"NetParameter", "default_conv_algos_override", kNvcaffe, true, "", "algorithms are chosen by themselves"},
    {"NetParameter", "global_grad_scale", kNvcaffe, true, "", "gradients in float need no scale"},
    {"NetParameter", "global_grad_scale_adaptive", kNvcaffe, true, "", "gradients in float need no scale"},
    {"NetParameter", "eltwise_mem_sharing", kNvcaffe, true, "", kMemory},
    {"NetParameter", "multinode", "intel/caffe", true, "", "how ranks share the work is chosen with --exchange and --wire", true},
    {"NetParameter", "bn_stats_batch_size", "intel/caffe", false, "", "remove it, and give each worker as many images: statistics are of a worker's batch"},
    {"NetParameter", "compile_net_state", "intel/caffe", true, "", kAlgorithms, true},
    {"NetParameter", "engine", "intel/caffe", true, "", kAlgorithms},
    {"LayerParameter", "engine", "intel/caffe", true, "", kAlgorithms},
    {"LayerParameter", "quantization_param", "intel/caffe", true, "", kFloat, true},
    {"LayerParameter", "multinode", "intel/caffe", true, "", "how ranks share the work is chosen with --exchange and --wire", true},
    {"", "engine", "intel/caffe", true, "MKL2017", kAlgorithms},
    {"", "engine", "intel/caffe", true, "MKLDNN", kAlgorithms},
    {"ConvolutionParameter", "conv_algorithm", "intel/caffe", true, "", kAlgorithms},
    {"ConcatParameter", "per_fla_fuse", "intel/caffe", true, "", kAlgorithms},
    {"BatchNormParameter", "filler", "intel/caffe", true, "", "a Scale layer has a filler of its own", true},
    {"LayerParameter", "forward_type", kNvcaffe, true, "", kPrecision},
    {"LayerParameter", "backward_type", kNvcaffe, true, "", kPrecision},
    {"LayerParameter", "forward_math", kNvcaffe, true, "", kPrecision},
    {"LayerParameter", "backward_math", kNvcaffe, true, "", kPrecision},
    {"LayerParameter", "cudnn_math_override", kNvcaffe, true, "", kPrecision},
    {"ConvolutionParameter", "cudnn_convolution_algo_seeker", kNvcaffe, true, "", "algorithms are chosen by themselves"},
    {"ConvolutionParameter", "conv_algos_override", kNvcaffe, true, "", "algorithms are chosen by themselves"},
    {"DataParameter", "threads", kNvcaffe, true, "", kReaders},
    {"DataParameter", "parser_threads", kNvcaffe, true, "", kReaders},
    {"DataParameter", "cache", kNvcaffe, true, "", kReaders},
    {"ImageDataParameter", "cache", kNvcaffe, true, "", kReaders},
    {"ImageDataParameter", "precache", kNvcaffe, true, "", kReaders},
    {"ImageDataParameter", "threads", kNvcaffe, true, "", kReaders},
    {"ImageDataParameter", "label_type", "DeepLab", false, "", "only whole numbers are labels of ImageData; convert images of labels to HDF5"},
    {"ImageDataParameter", "has_label", "DeepLab", false, "", "give every image of the list a label"},
    {"ImageDataParameter", "min_height", "LRCN", false, "", kAugmentation},
    {"ImageDataParameter", "min_width", "LRCN", false, "", kAugmentation},
    {"TransformationParameter", "flow", "LRCN", true, "false", "images are images"},
    {"TransformationParameter", "random_resize_param", "intel/caffe", false, "", kAugmentation, true},
    {"TransformationParameter", "random_aspect_ratio_param", "intel/caffe", false, "", kAugmentation, true},
    {"TransformationParameter", "pad", "intel/caffe", true, "0", "nothing is padded"},
    {"TransformationParameter", "img_rand_resize_lower", kNvcaffe, false, "", kAugmentation},
    {"TransformationParameter", "img_rand_resize_upper", kNvcaffe, false, "", kAugmentation},
    {"TransformationParameter", "vertical_stretch_lower", kNvcaffe, false, "", kAugmentation},
    {"TransformationParameter", "vertical_stretch_upper", kNvcaffe, false, "", kAugmentation},
    {"TransformationParameter", "horizontal_stretch_lower", kNvcaffe, false, "", kAugmentation},
    {"TransformationParameter", "horizontal_stretch_upper", kNvcaffe, false, "", kAugmentation},
    {"TransformationParameter", "allow_upscale", kNvcaffe, false, "", kAugmentation},
    {"AnnotatedDataParameter", "single_class", "MobileNet-YOLO", true, "false", "labels stay as they are"},
    {"AnnotatedDataParameter", "seg_scales", "MobileNet-YOLO", false, "", kSamplers},
    {"DataParameter", "shared_file_system", "PMLS-Caffe", true, "true", "one source is dealt over the ranks"},
    {"ImageDataParameter", "shared_file_system", "PMLS-Caffe", true, "true", "one source is dealt over the ranks"},
    {"PoolingParameter", "avg_include_pad", "intel/caffe", true, "true", "padding counts in the average, as in Caffe"},
    {"TransformationParameter", "use_gpu_transform", kNvcaffe, true, "", "data are transformed where they are read"},
    {"SolverParameter", "solver_data_type", kNvcaffe, true, "", kPrecision},
    {"SolverParameter", "store_blobs_in_old_format", kNvcaffe, true, "", "blobs are stored in Caffe's format"},
    {"SolverParameter", "layer_blobs_global_idx", "PMLS-Caffe", true, "", "parameters are numbered by themselves"},
    {"SolverParameter", "momentum_policy", kNvcaffe, false, "", kMomentum},
    {"SolverParameter", "max_momentum", kNvcaffe, false, "", kMomentum},
    {"SolverParameter", "momentum_power", kNvcaffe, false, "", kMomentum},
    {"SolverParameter", "max_epoch", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "epoch_size", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "test_epoch_size", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "test_interval_epoch", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "larc_turbo", kNvcaffe, false, "", kLars},
    {"SolverParameter", "test_offset", "intel/caffe", true, "0", "tests start at the first record"},
    {"SolverParameter", "stepearly", "LRCN", false, "", "remove it; lr_policy \"plateau\" lowers the rate when the loss stays"},
};
// clang-format on

}  // namespace

const ForkField* FindForkField(std::string_view message, std::string_view field) {
  const ForkField* found = std::ranges::find_if(
      kFields, [&](const ForkField& row) { return row.message == message && row.field == field; });
  return found == std::end(kFields) ? nullptr : found;
}

const ForkField* FindForkValue(std::string_view field, std::string_view value) {
  const ForkField* found = std::ranges::find_if(kFields, [&](const ForkField& row) {
    return row.message.empty() && row.field == field && row.value == value;
  });
  return found == std::end(kFields) ? nullptr : found;
}

bool BlankOut(const ForkField& field, const google::protobuf::Descriptor& root, std::string* text) {
  std::vector<std::pair<size_t, size_t>> places;
  VisitFields(*text, &root, [&](const TextField& found) {
    if (found.name != field.field || found.message == nullptr) return;
    if (!field.message.empty() && found.message->name() != field.message) return;
    if (found.braces != field.braces) return;
    if (!field.value.empty() && found.value != field.value) return;
    places.emplace_back(found.begin, found.end);
  });
  for (auto [begin, end] : places) {
    if (end < text->size() && ((*text)[end] == ',' || (*text)[end] == ';')) ++end;
    for (size_t i = begin; i < end; ++i) {
      if ((*text)[i] != '\n') (*text)[i] = ' ';
    }
  }
  return !places.empty();
}

}  // namespace carafe
