// A deploy net with its weights, mean and labels: pictures in, labels out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "carafe/core/stream.h"
#include "carafe/net/net.h"

struct Prediction {
  std::string label;
  float confidence = 0;
};

// For one thread. Everything throws carafe::Error.
class Classifier {
 public:
  // The net must have one input (N, C, H, W), C being 1 or 3, and one output with as many values as
  // the file of labels has lines. An empty mean_file subtracts nothing.
  Classifier(const std::string& model, const std::string& weights, const std::string& mean_file,
             const std::string& label_file);

  // The `most` likeliest labels of a picture file, the best first.
  std::vector<Prediction> Classify(const std::string& picture, size_t most);

 private:
  void LoadMean(const std::string& path);
  carafe::Blob<float>& input() { return *net_->blobs()[static_cast<size_t>(net_->input_ids()[0])]; }
  carafe::Blob<float>& output() {
    return *net_->blobs()[static_cast<size_t>(net_->output_ids()[0])];
  }

  carafe::Stream stream_;  // on the CPU; CPU threads are its second argument
  std::unique_ptr<carafe::Net<float>> net_;
  std::vector<float> mean_;  // per channel
  std::vector<std::string> labels_;
};
