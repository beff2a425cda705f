#include "carafe/train/data_wait.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "carafe/data/database_writer.h"
#include "tests/support/test_folder.h"

namespace carafe {
namespace {

TEST(DataWait, CountsTheTimeThatDataLayersOfANetWaited) {
  const TestFolder folder;
  Datum datum;
  datum.set_channels(1);
  datum.set_height(1);
  datum.set_width(1);
  datum.set_data("x");
  const auto writer = NewLmdbWriter(folder / "db");
  writer->Put("k", datum.SerializeAsString());
  writer->Finish();
  NetState state;
  state.set_phase(TRAIN);
  Net<float> net(ParseNetSpec(fmt::format("layer {{ name: \"d\" type: \"Data\" top: \"x\" "
                                          "data_param {{ source: \"{}\" backend: LMDB "
                                          "batch_size: 2 }} }}",
                                          folder / "db"),
                              "n.prototxt"),
                 state);
  EXPECT_EQ(DataWaitSeconds(net), 0);
  Stream stream;
  RunContext run{.stream = stream};
  net.Forward(run);  // the first batch is loaded now: there is nothing ahead yet
  EXPECT_GT(DataWaitSeconds(net), 0);
}

}  // namespace
}  // namespace carafe
