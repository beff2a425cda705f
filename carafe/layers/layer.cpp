#include "carafe/layers/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "carafe/base/suggest.h"
#include "carafe/layers/planned.h"
#include "carafe/proto/fork_layers.h"

namespace carafe {

void LayerSpec::Fail(std::string_view path, const std::string& what, const std::string& fix) const {
  throw ConfigError(place_.Find(path),
                    fmt::format("layer \"{}\" ({})", param_.name(), param_.type()), what, fix);
}

template <typename T>
std::vector<ParamDef> Layer<T>::DeclareParams(const Shapes&) const {
  return {};
}

template <typename T>
void Layer<T>::Reshape(RunContext&, Blobs<T> bottom, Blobs<T> top) {
  const auto same = [](const Blob<T>* blob, const Shape& shape) { return blob->shape() == shape; };
  if (bottom.empty() || !std::ranges::equal(bottom, seen_, same)) {
    Shapes shapes;
    for (const Blob<T>* blob : bottom) shapes.push_back(blob->shape());
    inferred_ = InferShapes(shapes);
    seen_ = std::move(shapes);
  }
  for (size_t i = 0; i < top.size(); ++i) {
    if (!same(top[i], inferred_[i])) top[i]->Reshape(inferred_[i]);
  }
}

template <typename T>
void Layer<T>::ChannelCoefficients(Stream&, const Blob<T>*, Blob<T>*, Blob<T>*) {
  throw InternalError("layer \"" + name() + "\" is no kChannelNorm");
}

template <typename T>
std::vector<PlannedWay> Layer<T>::Ways(Stream&, const Shape&, int) {
  return {};
}

template <typename T>
Factors<T> Layer<T>::GradientFactors(int, Stream&, Blobs<T>, Blobs<T>) {
  throw InternalError("layer \"" + name() + "\" has no factors");
}

const LayerEntry& FindLayer(const LayerSpec& spec) {
  const std::string& type = spec.param().type();
  const LayerEntry* entry = LayerRegistry::Instance().Find(type);
  if (entry == nullptr) {
    if (const ForkLayer* fork = FindForkLayer(type)) {
      ThrowForkLayer(spec.place().Find("type"), spec.name(), *fork);
    }
    const std::string what =
        type.empty() ? "the layer has no type" : fmt::format("unknown layer type \"{}\"", type);
    throw ConfigError(spec.place().Find("type"), fmt::format("layer \"{}\": {}", spec.name(), what),
                      DidYouMean(type, LayerRegistry::Instance().Names()));
  }
  return *entry;
}

namespace {

void CheckNotInPlace(const LayerSpec& spec) {
  const LayerParameter& param = spec.param();
  for (int i = 0; i < param.top_size(); ++i) {
    for (const std::string& bottom : param.bottom()) {
      spec.Check(param.top(i) != bottom, fmt::format("top[{}]", i),
                 fmt::format("{} cannot run in place, but \"{}\" is both bottom and top",
                             param.type(), bottom),
                 "give the top a name of its own");
    }
  }
}

}  // namespace

template <typename T>
std::unique_ptr<Layer<T>> MakeLayer(const LayerSpec& spec) {
  const LayerEntry& entry = FindLayer(spec);
  if (!entry.info.in_place) CheckNotInPlace(spec);
  if constexpr (std::is_same_v<T, float>) {
    return entry.make_float(spec);
  } else {
    return entry.make_double(spec);
  }
}

template class Layer<float>;
template class Layer<double>;
template std::unique_ptr<Layer<float>> MakeLayer<float>(const LayerSpec&);
template std::unique_ptr<Layer<double>> MakeLayer<double>(const LayerSpec&);

}  // namespace carafe
