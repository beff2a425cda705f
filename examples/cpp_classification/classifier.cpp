#include "classifier.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <thread>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/data/picture.h"
#include "carafe/net/weights.h"

namespace {

int Threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

std::vector<std::string> ReadLines(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream text(carafe::ReadFile(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace

Classifier::Classifier(const std::string& model, const std::string& weights,
                       const std::string& mean_file, const std::string& label_file)
    : stream_(carafe::CpuDevice(), Threads()), labels_(ReadLines(label_file)) {
  carafe::NetState state;
  state.set_phase(carafe::TEST);
  net_ = std::make_unique<carafe::Net<float>>(carafe::LoadNetSpec(model), state);
  if (net_->input_ids().size() != 1 || net_->output_ids().size() != 1) {
    throw carafe::ConfigError(model + ": the net must have one input and one output",
                              "use a deploy.prototxt that ends in a Softmax");
  }
  const carafe::Shape& shape = input().shape();
  if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3)) {
    throw carafe::ConfigError(model + ": the input's shape is " + shape.ToString(),
                              "it must be (N, C, H, W) with C 1 or 3");
  }
  // One picture at a time, whatever the file says.
  input().Reshape({1, shape[1], shape[2], shape[3]});
  carafe::RunContext run{.stream = stream_};
  net_->Reshape(run);
  if (output().count() != static_cast<int64_t>(labels_.size())) {
    throw carafe::ConfigError(label_file + " has " + std::to_string(labels_.size()) +
                                  " lines, but the net has " + std::to_string(output().count()) +
                                  " outputs",
                              "give one label per output");
  }
  net_->Initialise(stream_, /*seed=*/1);  // takes memory for the parameters; then the file's values
  carafe::LoadWeights(stream_, weights, *net_);
  LoadMean(mean_file);
}

// One number per channel: the mean over the mean picture, which then fits a net of any size.
void Classifier::LoadMean(const std::string& path) {
  const int64_t channels = input().shape()[1];
  mean_.assign(static_cast<size_t>(channels), 0.0f);
  if (path.empty()) return;
  carafe::BlobProto proto;
  if (!proto.ParseFromString(carafe::ReadFile(path))) {
    throw carafe::DataError(path, -1, "this is no mean file",
                            "give the .binaryproto that compute_image_mean has written");
  }
  const std::vector<double> values = carafe::BlobProtoValues(proto, path, "the mean");
  const carafe::Shape shape = carafe::BlobProtoShape(proto);
  if (shape.rank() != 4 || shape[1] != channels || values.empty()) {
    throw carafe::DataError(path, -1, "the mean's shape is " + shape.ToString(),
                            "it must have as many channels as the net's input");
  }
  const size_t plane = values.size() / mean_.size();
  for (size_t c = 0; c < mean_.size(); ++c) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(c * plane);
    const double sum = std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(plane), 0.0);
    mean_[c] = static_cast<float>(sum / static_cast<double>(plane));
  }
}

std::vector<Prediction> Classifier::Classify(const std::string& picture, size_t most) {
  const carafe::Shape& shape = input().shape();
  const auto mode = shape[1] == 1 ? carafe::PictureMode::kGray : carafe::PictureMode::kColor;
  const std::string planes = carafe::PlanesOf(
      carafe::ResizePicture(carafe::ReadPicture(picture, mode), shape[2], shape[3]));
  const size_t plane = planes.size() / mean_.size();
  std::vector<float> values(planes.size());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<uint8_t>(planes[i])) - mean_[i / plane];
  input().SetData(stream_, values);

  carafe::RunContext run{.stream = stream_};
  net_->Forward(run);
  const std::vector<float> scores = output().DataToHost(stream_);

  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<Prediction> best;
  for (size_t i = 0; i < std::min(most, order.size()); ++i) {
    best.push_back({labels_[order[i]], scores[order[i]]});
  }
  return best;
}
