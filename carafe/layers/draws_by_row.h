// What a net tells a layer that draws at random for every row of the batch.
#pragma once

namespace carafe {

// A layer that draws so is a Layer<T> and this.
class DrawsByRow {
 public:
  virtual ~DrawsByRow() = default;
  // How many leading axes of bottom 0 count the rows of the batch: 1, or 2 where it holds the steps
  // and sequences of a recurrent layer. Row r of worker w is slot r * workers + w either way, for
  // the data layer dealt out the records of step after step.
  virtual void SetRowAxes(int axes) = 0;
};

}  // namespace carafe
