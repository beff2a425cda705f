// Gives axes [axis, axis + num_axes) of the bottom another shape: 0 keeps the size of the axis at
// the same place, one -1 is what remains. The top shares the bottom's memory.
#include <fmt/format.h>

#include "carafe/layers/alias.h"

namespace carafe {
namespace {

template <typename T>
class ReshapeLayer final : public AliasLayer<T> {
 public:
  explicit ReshapeLayer(const LayerSpec& spec)
      : AliasLayer<T>(spec), param_(spec.param().reshape_param()) {
    int inferred = 0;
    for (int i = 0; i < param_.shape().dim_size(); ++i) {
      const int64_t dim = param_.shape().dim(i);
      spec.Check(dim >= -1, DimPath(i), fmt::format("a size is {}", dim),
                 "use a positive size, 0 to keep the bottom's, or -1 for what remains");
      spec.Check(dim != -1 || ++inferred == 1, DimPath(i), "more than one size is -1",
                 "leave only one size to be inferred");
    }
    spec.Check(param_.num_axes() >= -1, "reshape_param.num_axes",
               fmt::format("num_axes is {}", param_.num_axes()), "use 0 or more, or -1 for all");
  }
  Shapes InferShapes(const Shapes& bottom) const override {
    const LayerSpec& spec = this->spec();
    const Shape& x = bottom[0];
    // axis -1 means behind the last axis here: a place between axes, not an axis.
    const int start = param_.axis() >= 0 ? param_.axis() : x.rank() + param_.axis() + 1;
    spec.Check(
        start >= 0 && start <= x.rank(), "reshape_param.axis",
        fmt::format("axis {} is out of range for a blob of shape {}", param_.axis(), x.ToString()),
        fmt::format("use an axis from {} to {}", -x.rank() - 1, x.rank()));
    const int end = param_.num_axes() == -1 ? x.rank() : start + param_.num_axes();
    spec.Check(end <= x.rank(), "reshape_param.num_axes",
               fmt::format("axis {} and num_axes {} reach beyond the bottom's shape {}", start,
                           param_.num_axes(), x.ToString()),
               "use fewer axes");
    std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + start);
    int64_t known = x.Count(0, start) * x.Count(end);
    int infer = -1;
    for (int i = 0; i < param_.shape().dim_size(); ++i) {
      int64_t dim = param_.shape().dim(i);
      if (dim == 0) {
        spec.Check(start + i < x.rank(), DimPath(i),
                   fmt::format("size 0 keeps axis {} of the bottom, which has only {}", start + i,
                               x.rank()),
                   "give the size");
        dim = x[start + i];
      }
      if (dim == -1) {
        infer = static_cast<int>(dims.size());
      } else {
        known *= dim;
      }
      dims.push_back(dim);
    }
    dims.insert(dims.end(), x.dims().begin() + end, x.dims().end());
    if (infer >= 0) {
      spec.Check(
          known > 0 && x.Count() % known == 0, "reshape_param.shape",
          fmt::format("the bottom's {} elements cannot be divided by the {} of the other axes "
                      "to infer the size -1",
                      x.Count(), known),
          "give sizes whose product divides the bottom's");
      dims[static_cast<size_t>(infer)] = x.Count() / known;
    }
    const Shape top{std::span<const int64_t>(dims)};
    spec.Check(top.Count() == x.Count(), "reshape_param.shape",
               fmt::format("the new shape {} has another number of elements than the bottom's {}",
                           top.ToString(), x.ToString()),
               "give sizes with the same product, or -1 for one of them");
    return {top};
  }

 private:
  static std::string DimPath(int i) { return fmt::format("reshape_param.shape.dim[{}]", i); }
  const ReshapeParameter param_;
};

const RegisterLayer<ReshapeLayer> kRegistered{{.type = "Reshape",
                                               .bottoms = {1, 1},
                                               .tops = {1, 1},
                                               .summary = "Gives a blob another shape."}};

}  // namespace
}  // namespace carafe
