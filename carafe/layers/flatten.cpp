// Joins the axes from `axis` to `end_axis` into one. The top shares the bottom's memory.
#include <fmt/format.h>

#include "carafe/layers/alias.h"

namespace carafe {
namespace {

template <typename T>
class Flatten final : public AliasLayer<T> {
 public:
  using AliasLayer<T>::AliasLayer;
  Shapes InferShapes(const Shapes& bottom) const override {
    const FlattenParameter& param = this->spec().param().flatten_param();
    const Shape& x = bottom[0];
    const int first = x.CanonicalAxis(param.axis()), last = x.CanonicalAxis(param.end_axis());
    this->spec().Check(first <= last, "flatten_param.end_axis",
                       fmt::format("end_axis ({}) lies before axis ({})", last, first),
                       "use an end_axis of at least axis");
    Shape top = x.First(first).Append(x.Count(first, last + 1));
    for (int a = last + 1; a < x.rank(); ++a) top = top.Append(x[a]);
    return {top};
  }
};

const RegisterLayer<Flatten> kRegistered{{.type = "Flatten",
                                          .bottoms = {1, 1},
                                          .tops = {1, 1},
                                          .summary = "Joins a range of axes into one."}};

}  // namespace
}  // namespace carafe
