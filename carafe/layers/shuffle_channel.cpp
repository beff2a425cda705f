// Mixes the channels of groups: with k channels per group, channel g k + i becomes i group + g.
//   bottom (N, C, ..)  ->  top of the same shape; `group` divides C
#include <fmt/format.h>

#include "carafe/layers/permuting.h"

namespace carafe {
namespace {

template <typename T>
class ShuffleChannel final : public PermutingLayer<T> {
 public:
  explicit ShuffleChannel(const LayerSpec& spec)
      : PermutingLayer<T>(spec), group_(spec.param().shuffle_channel_param().group()) {
    spec.Check(group_ > 0, "shuffle_channel_param.group", "group is 0", "use 1 or more groups");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const Shape& x = bottom[0];
    this->spec().Check(x.rank() >= 2, "bottom",
                       fmt::format("ShuffleChannel needs a bottom of 2 axes or more (N, C, ..), "
                                   "this one is {}",
                                   x.ToString()),
                       "reshape the bottom");
    this->spec().Check(
        x[1] % group_ == 0, "shuffle_channel_param.group",
        fmt::format("the bottom's {} channels cannot be divided into {} groups", x[1], group_),
        "use a group that divides the number of channels");
    return {x};
  }

 private:
  // (N, group, k, rest) to (N, k, group, rest)
  PermuteGeometry GeometryOf(const Shape& x) const override {
    const int64_t k = x[1] / group_, rest = x.Count(2);
    return {4, {x[0], k, group_, rest}, {x[1] * rest, rest, k * rest, 1}};
  }
  const int64_t group_;
};

const RegisterLayer<ShuffleChannel> kRegistered{
    {.type = "ShuffleChannel",
     .bottoms = {1, 1},
     .tops = {1, 1},
     .summary = "Mixes the channels of groups (ShuffleNet)."}};

}  // namespace
}  // namespace carafe
