#include "carafe/exchange/layer_plan.h"

#include <gtest/gtest.h>

#include "carafe/base/error.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

TEST(LayerPlan, ReadsWhatItWrites) {
  const std::string text = "fc6:sfb,inception/fc7:dense,odd:name:sfb";
  const LayerPlan plan = LayerPlan::Parse(text);
  EXPECT_EQ(plan.Text(), text);
  EXPECT_EQ(plan.Find("fc6"), LayerScheme::kFactors);
  EXPECT_EQ(plan.Find("inception/fc7"), LayerScheme::kDense);
  EXPECT_EQ(plan.Find("odd:name"), LayerScheme::kFactors);
  EXPECT_EQ(plan.Find("fc8"), std::nullopt);
  EXPECT_EQ(LayerPlan::Parse("").Text(), "");
}

TEST(LayerPlan, RefusesWhatIsNotOne) {
  for (const char* text : {"fc6", "fc6:ring", ":sfb", "fc6:sfb,fc6:dense", "fc6:sfb,,fc7:sfb"})
    EXPECT_THROW(LayerPlan::Parse(text), ConfigError) << text;
  EXPECT_EQ(ErrorText<ConfigError>([] { LayerPlan::Parse("fc6:ring"); }),
            "error: --plan: \"fc6:ring\" names no scheme\n"
            "  fix: the schemes are dense and sfb, e.g. fc6:sfb,fc7:dense");
}

}  // namespace
}  // namespace carafe
