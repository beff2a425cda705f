// Layers written in Python themselves are tested by python/tests; here is how the library finds the
// plug-in that makes them.
#include <gtest/gtest.h>

#include "carafe/layers/python_plugin.h"
#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

// Stands for a class written in Python.
class Doubling final : public Layer<float> {
 public:
  explicit Doubling(const LayerSpec& spec) : Layer<float>(spec) {}
  Shapes InferShapes(const Shapes& bottom) const override { return bottom; }
  void Forward(RunContext& run, Blobs<float> bottom, Blobs<float> top) override {
    std::vector<float> values = bottom[0]->DataToHost(run.stream);
    for (float& value : values) value *= 2;
    top[0]->SetData(run.stream, values);
  }
  void Backward(RunContext&, Blobs<float>, const std::vector<bool>&, Blobs<float>) override {}
};

TEST(Python, MakesItsLayersThroughThePlugIn) {
  static std::string module;
  const PythonPlugin plugin{[](const LayerSpec& spec) -> std::unique_ptr<Layer<float>> {
    module = spec.param().python_param().module();
    return std::make_unique<Doubling>(spec);
  }};
  SetPythonPlugin(&plugin);
  LayerTester<float> layer("type: 'Python' python_param { module: 'mine' layer: 'Doubling' }", {2},
                           {.tops = 1});
  SetPythonPlugin(nullptr);
  EXPECT_EQ(module, "mine");
  EXPECT_EQ(layer.SetBottom({1, 2}).Forward().top_values(), (std::vector<float>{2, 4}));
}

TEST(Python, ComputesInFloatOnly) {
  EXPECT_EQ(ErrorText<ConfigError>([] { LayerTester<double>("type: 'Python'", {2}); }),
            "test.prototxt:1:1: error: layer \"test\" (Python): layers written in Python compute "
            "in float only\n  fix: use a net of floats");
}

}  // namespace
}  // namespace carafe
