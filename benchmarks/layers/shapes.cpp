#include "benchmarks/layers/shapes.h"

namespace carafe::benchmark {
namespace {

NamedShape Square(const std::string& name, int64_t images, int64_t size, int64_t in, int64_t out,
                  int64_t kernel = 3, int64_t groups = 1) {
  ConvolutionShape s{.images = images, .groups = groups, .in_channels = in, .out_channels = out};
  s.in_h = s.in_w = s.out_h = s.out_w = size;
  s.kernel_h = s.kernel_w = kernel;
  s.pad_h = s.pad_w = kernel / 2;
  return {name, s};
}

}  // namespace

std::vector<NamedShape> Shapes(const std::string& filter) {
  const std::vector<NamedShape> all = {
      Square("vgg16.1_2", 4, 224, 64, 64),           Square("vgg16.2_1", 4, 112, 64, 128),
      Square("vgg16.2_2", 4, 112, 128, 128),         Square("vgg16.3_1", 4, 56, 128, 256),
      Square("vgg16.3_2", 4, 56, 256, 256),          Square("vgg16.4_1", 4, 28, 256, 512),
      Square("vgg16.4_2", 4, 28, 512, 512),          Square("vgg16.5_1", 4, 14, 512, 512),
      Square("resnet50.2", 8, 56, 64, 64),           Square("resnet50.3", 8, 28, 128, 128),
      Square("resnet50.4", 8, 14, 256, 256),         Square("resnet50.5", 8, 7, 512, 512),
      Square("googlenet.2", 16, 56, 64, 192),        Square("googlenet.3a", 16, 28, 96, 128),
      Square("googlenet.3b", 16, 28, 128, 192),      Square("googlenet.4a", 16, 14, 96, 208),
      Square("googlenet.4e", 16, 14, 160, 320),      Square("googlenet.5a", 16, 7, 160, 320),
      Square("googlenet.5b", 16, 7, 192, 384),       Square("caffenet.3", 32, 13, 256, 384),
      Square("caffenet.4", 32, 13, 384, 384, 3, 2),  Square("caffenet.5", 32, 13, 384, 256, 3, 2),
      Square("caffenet.2", 32, 27, 96, 256, 5, 2),   Square("cifar10_quick.2", 100, 16, 32, 32, 5),
      Square("cifar10_quick.3", 100, 8, 32, 64, 5),  Square("googlenet.3a.5x5", 16, 28, 16, 32, 5),
      Square("googlenet.3b.5x5", 16, 28, 32, 96, 5), Square("googlenet.4e.5x5", 16, 14, 32, 128, 5),
      Square("googlenet.5b.5x5", 16, 7, 48, 128, 5),
  };
  std::vector<NamedShape> chosen;
  for (const NamedShape& shape : all) {
    if (shape.name.find(filter) != std::string::npos) chosen.push_back(shape);
  }
  return chosen;
}

}  // namespace carafe::benchmark
