#include "carafe/proto/fork_fields.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace carafe {
namespace {

constexpr std::string_view kNvcaffe = "NVCaffe and Caffe-MPI 2.0";
constexpr std::string_view kPrecision = "all runs in the precision of the net, float by default";
constexpr std::string_view kOverlap = "gradients always travel while Backward runs";
constexpr std::string_view kReaders = "how data are read ahead is chosen by itself";
constexpr std::string_view kMomentum = "remove it: momentum stays as it is given";
constexpr std::string_view kEpochs =
    "remove it and count in iterations: an epoch has records / batch size of them";
constexpr std::string_view kDetection = "remove it: there is no test of detections";

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
    {"NetParameter", "reduce_buckets", kNvcaffe, true, "", "the size of buckets is chosen by itself"},
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
    {"DataParameter", "shared_file_system", "PMLS-Caffe", true, "true", "one source is dealt over the ranks"},
    {"ImageDataParameter", "shared_file_system", "PMLS-Caffe", true, "true", "one source is dealt over the ranks"},
    {"PoolingParameter", "avg_include_pad", "intel/caffe", true, "true", "padding counts in the average, as in Caffe"},
    {"TransformationParameter", "use_gpu_transform", kNvcaffe, true, "", "data are transformed where they are read"},
    {"SolverParameter", "per_parameter_reduce", "Caffe-MPI 1.0 and NVCaffe", true, "", kOverlap},
    {"SolverParameter", "solver_data_type", kNvcaffe, true, "", kPrecision},
    {"SolverParameter", "store_blobs_in_old_format", kNvcaffe, true, "", "blobs are stored in Caffe's format"},
    {"SolverParameter", "timeout_sec", "Caffe-MPI of 2016", true, "", "a step waits for all ranks"},
    {"SolverParameter", "timeout_nsec", "Caffe-MPI of 2016", true, "", "a step waits for all ranks"},
    {"SolverParameter", "layer_blobs_global_idx", "PMLS-Caffe", true, "", "parameters are numbered by themselves"},
    {"SolverParameter", "momentum_policy", kNvcaffe, false, "", kMomentum},
    {"SolverParameter", "max_momentum", kNvcaffe, false, "", kMomentum},
    {"SolverParameter", "momentum_power", kNvcaffe, false, "", kMomentum},
    {"SolverParameter", "max_epoch", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "epoch_size", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "test_epoch_size", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "test_interval_epoch", "NVCaffe 0.15", false, "", kEpochs},
    {"SolverParameter", "eval_type", "intel/caffe", false, "", kDetection},
    {"SolverParameter", "ap_version", "intel/caffe", false, "", kDetection},
};
// clang-format on

bool InWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// One past the quoted string that starts at `at`.
size_t AfterQuoted(const std::string& text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote && text[at] != '\n'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

size_t AfterSpace(const std::string& text, size_t at) {
  while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at])) != 0) ++at;
  return at;
}

// One past a value without braces that starts at `at`, or `at`.
size_t AfterScalar(const std::string& text, size_t at) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) return AfterQuoted(text, at);
  constexpr std::string_view more = ".+-";
  while (at < text.size() && (InWord(text[at]) || more.find(text[at]) != more.npos)) ++at;
  return at;
}

}  // namespace

const ForkField* FindForkField(std::string_view message, std::string_view field) {
  const ForkField* found = std::ranges::find_if(
      kFields, [&](const ForkField& row) { return row.message == message && row.field == field; });
  return found == std::end(kFields) ? nullptr : found;
}

bool BlankOut(const ForkField& field, std::string* text) {
  bool any = false;
  for (size_t at = 0; at < text->size();) {
    const char c = (*text)[at];
    if (c == '#') {
      at = std::min(text->find('\n', at), text->size());
    } else if (c == '"' || c == '\'') {
      at = AfterQuoted(*text, at);
    } else if (!InWord(c)) {
      ++at;
    } else {
      size_t end = at;
      while (end < text->size() && InWord((*text)[end])) ++end;
      const size_t start = at;
      const size_t colon = AfterSpace(*text, end);
      at = end;
      if (std::string_view(*text).substr(start, end - start) != field.field) continue;
      if (colon >= text->size() || (*text)[colon] != ':') continue;
      const size_t value = AfterSpace(*text, colon + 1);
      size_t after = AfterScalar(*text, value);
      if (after == value) continue;
      if (!field.value.empty() && text->compare(value, after - value, field.value) != 0) continue;
      if (after < text->size() && ((*text)[after] == ',' || (*text)[after] == ';')) ++after;
      for (size_t i = start; i < after; ++i) {
        if ((*text)[i] != '\n') (*text)[i] = ' ';
      }
      any = true;
      at = after;
    }
  }
  return any;
}

}  // namespace carafe
