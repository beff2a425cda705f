// What is in a picture? classification deploy.prototxt net.caffemodel mean.binaryproto labels.txt
// picture.jpg prints the five likeliest labels, in the form of Caffe's program of this name.
#include <cstdio>
#include <exception>

#include "classifier.h"

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(
        stderr,
        "usage: %s deploy.prototxt net.caffemodel mean.binaryproto labels.txt picture.jpg\n"
        "  \"\" as the mean subtracts nothing\n",
        argv[0]);
    return 1;
  }
  try {
    Classifier classifier(argv[1], argv[2], argv[3], argv[4]);
    std::printf("---------- Prediction for %s ----------\n", argv[5]);
    for (const Prediction& prediction : classifier.Classify(argv[5], 5)) {
      std::printf("%.4f - \"%s\"\n", prediction.confidence, prediction.label.c_str());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
