#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_text.h"
#include "tests/support/layer_tester.h"

namespace carafe {
namespace {

TEST(Flatten, JoinsAxesAndSharesMemory) {
  struct Case {
    const char* param;
    Shape top;
  };
  for (const Case& test : {Case{"", {2, 12}}, Case{"axis: 0 end_axis: -2", {6, 4}}}) {
    LayerTester<double> layer(std::string("type: 'Flatten' flatten_param {") + test.param + "}",
                              {2, 3, 4});
    EXPECT_EQ(layer.top().shape(), test.top);
    EXPECT_EQ(layer.Forward().top_values(), layer.bottom_values());
    EXPECT_TRUE(layer.top().SharesDataWith(layer.bottom()));
    EXPECT_LT(GradientError(layer), 1e-9);
  }
}

TEST(Flatten, RefusesAnEndBeforeItsAxis) {
  EXPECT_EQ(
      ErrorText<ConfigError>([] {
        LayerTester<float>("type: 'Flatten' flatten_param {\n axis: 1 end_axis: 0 }", {2, 6});
      }),
      "test.prototxt:2:10: error: layer \"test\" (Flatten): end_axis (0) lies before axis (1)\n"
      "  fix: use an end_axis of at least axis");
}

TEST(Flatten, CannotRunInPlace) {
  EXPECT_THROW(LayerTester<float>("type: 'Flatten'", {2}, {.in_place = true}), ConfigError);
}

}  // namespace
}  // namespace carafe
