// A prototxt: parsed, upgraded, filtered, built in both phases; run once where it is small.
#include <set>

#include "carafe/core/run_context.h"
#include "carafe/net/net.h"
#include "tests/fuzz/fuzz.h"

namespace carafe::fuzz {
namespace {

// Elements of all blobs and, for each layer, parameters times outputs: bounds memory and time.
bool IsSmall(const Net<float>& net) {
  constexpr double kMostElements = 1 << 18, kMostWork = 1 << 26;
  if (net.layers().size() > 64) return false;
  double elements = 0, work = 0;
  for (const auto& blob : net.blobs()) elements += static_cast<double>(blob->count());
  for (const Param<float>& param : net.params()) {
    const double count = static_cast<double>(param.blob->count());
    elements += count;
    double outputs = 0;
    for (const Blob<float>* top : net.tops()[static_cast<size_t>(param.layer)])
      outputs += static_cast<double>(top->count());
    work += count * outputs;
  }
  return elements <= kMostElements && work <= kMostWork;
}

// Layers that reach outside the net: they would write where the input says, or run its code.
bool StaysInside(const NetSpec& spec) {
  static const std::set<std::string> outside = {"HDF5Output", "Python"};
  for (const LayerParameter& layer : spec.param.layer())
    if (outside.count(layer.type()) > 0) return false;
  return true;
}

void BuildAndRun(const NetSpec& spec, Phase phase) {
  NetState state = spec.param.state();
  state.set_phase(phase);
  Net<float> net(spec, state);
  if (!IsSmall(net)) return;
  Stream stream;
  net.Initialise(stream, 1);
  RunContext run{.stream = stream};
  net.Forward(run);
  if (phase == TRAIN) net.Backward(run);
}

}  // namespace
}  // namespace carafe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace fuzz = carafe::fuzz;
  fuzz::Folder();
  fuzz::Try([&] {
    const carafe::NetSpec spec =
        carafe::ParseNetSpec(std::string(fuzz::Text(data, size)), "input.prototxt");
    if (!fuzz::StaysInside(spec)) return;
    for (const carafe::Phase phase : {carafe::TRAIN, carafe::TEST})
      fuzz::Try([&] { fuzz::BuildAndRun(spec, phase); });
  });
  return 0;
}
