// A .caffemodel: read, and copied into a net that has layers of the usual names.
#include "carafe/net/weights.h"
#include "tests/fuzz/fuzz.h"

namespace carafe::fuzz {
namespace {

constexpr char kNet[] = R"(
  layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 1 dim: 6 dim: 6 } } }
  layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
          convolution_param { num_output: 2 kernel_size: 3 } }
  layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "bn" }
  layer { name: "ip" type: "InnerProduct" bottom: "bn" top: "ip" inner_product_param { num_output: 3 } })";

}  // namespace
}  // namespace carafe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = carafe::fuzz;
  const std::string path = fuzz::WriteInput("input.caffemodel", data, size);
  static carafe::Stream stream;
  static carafe::Net<float>* net = [] {
    carafe::NetState state;
    state.set_phase(carafe::TEST);
    auto* made = new carafe::Net<float>(carafe::ParseNetSpec(fuzz::kNet, "net.prototxt"), state);
    made->Initialise(stream, 1);
    return made;
  }();
  fuzz::Try([&] { carafe::LoadWeights(stream, path, *net); });
  return 0;
}
