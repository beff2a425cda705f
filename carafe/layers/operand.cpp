#include "carafe/layers/operand.h"

#include <fmt/format.h>

namespace carafe {

Shape LearnedOperand(const LayerSpec& spec, const std::string& path, const Shape& x, int axis,
                     int num_axes) {
  spec.Check(num_axes >= -1, path + ".num_axes", fmt::format("num_axes is {}", num_axes),
             "use 0 or more, or -1 for all axes from `axis` on");
  if (num_axes == 0) return {};
  const int first = x.CanonicalAxis(axis);
  const int end = num_axes == -1 ? x.rank() : first + num_axes;
  spec.Check(end <= x.rank(), path + ".num_axes",
             fmt::format("axis {} and num_axes {} reach beyond the bottom's shape {}", first,
                         num_axes, x.ToString()),
             "use fewer axes, or -1 for all that there are");
  return Shape(x.dims().subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)));
}

ChannelAxis OperandAxis(const LayerSpec& spec, const Shape& x, int axis, const Shape& operand) {
  const int first = operand.rank() == 0 ? 0 : x.CanonicalAxis(axis);
  bool fits = first + operand.rank() <= x.rank();
  for (int a = 0; fits && a < operand.rank(); ++a) fits = x[first + a] == operand[a];
  if (!fits) {
    spec.Fail("bottom[1]",
              fmt::format("its shape {} is not that of the axes from {} on of bottom 0 ({})",
                          operand.ToString(), first, x.ToString()),
              "give a second bottom whose axes match, or another axis");
  }
  return {x.Count(0, first), operand.Count(), x.Count(first + operand.rank())};
}

}  // namespace carafe
