// The axes in another order: axis i of the top is axis order[i] of the bottom; axes that `order`
// does not name follow in their old order. (0, 2, 3, 1) makes N, H, W, C out of N, C, H, W.
#include <fmt/format.h>

#include <algorithm>

#include "carafe/layers/permuting.h"

namespace carafe {
namespace {

template <typename T>
class Permute final : public PermutingLayer<T> {
 public:
  explicit Permute(const LayerSpec& spec)
      : PermutingLayer<T>(spec),
        order_(spec.param().permute_param().order().begin(),
               spec.param().permute_param().order().end()) {
    for (size_t i = 0; i < order_.size(); ++i) {
      spec.Check(std::count(order_.begin(), order_.end(), order_[i]) == 1,
                 fmt::format("permute_param.order[{}]", i),
                 fmt::format("order names axis {} twice", order_[i]), "name each axis once");
    }
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    Shape top;
    for (const int axis : OrderOf(bottom[0])) top = top.Append(bottom[0][axis]);
    return {top};
  }

 private:
  std::vector<int> OrderOf(const Shape& x) const {
    this->spec().Check(x.rank() > 0, "bottom", "a scalar has no axes to permute",
                       "leave the layer away");
    std::vector<int> order;
    for (size_t i = 0; i < order_.size(); ++i) {
      this->spec().Check(
          order_[i] < static_cast<uint32_t>(x.rank()), fmt::format("permute_param.order[{}]", i),
          fmt::format("order names axis {}, but the bottom is {}", order_[i], x.ToString()),
          fmt::format("name axes from 0 to {}", x.rank() - 1));
      order.push_back(static_cast<int>(order_[i]));
    }
    for (int axis = 0; axis < x.rank(); ++axis) {
      if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
    }
    return order;
  }
  PermuteGeometry GeometryOf(const Shape& x) const override {
    PermuteGeometry g;
    for (const int axis : OrderOf(x)) {
      g.out[g.axes] = x[axis];
      g.step[g.axes++] = x.Count(axis + 1);
    }
    return g;
  }
  const std::vector<uint32_t> order_;
};

const RegisterLayer<Permute> kRegistered{{.type = "Permute",
                                          .bottoms = {1, 1},
                                          .tops = {1, 1},
                                          .summary = "The axes in another order (SSD)."}};

}  // namespace
}  // namespace carafe
