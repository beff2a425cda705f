// Where the gradients of parameters lie: each in its own place for a whole step, or one after the
// other in the same few places; and which of them are offered as factors instead.
#include <algorithm>
#include <climits>

#include "carafe/core/memory_pool.h"
#include "carafe/layers/factor_rows.h"
#include "carafe/net/param_alignment.h"
#include "carafe/net/parameters.h"

namespace carafe {
namespace {

size_t Padded(int64_t count) { return static_cast<size_t>(AlignedCount(count)); }

}  // namespace

template <typename T>
int Parameters<T>::OnlyUserOf(int param) const {
  int user = -1;
  for (int l = 0; l < graph_.size(); ++l) {
    for (const int owner : UsedBy(l)) {
      if (owner != param) continue;
      if (user >= 0) return -1;
      user = l;
    }
  }
  return user;
}

template <typename T>
int64_t Parameters<T>::FactorRows(int param) const {
  int64_t rows = 0;
  for (int l = 0; l < graph_.size(); ++l) {
    for (int i = 0; i < Count(UsedBy(l)); ++i) {
      if (At(UsedBy(l), i) != param) continue;
      const Layer<T>& layer = *At(graph_.layers, l);
      if (!At(graph_.needs_backward, l) || !layer.param_propagate_down(i)) return 0;
      Shapes bottoms;
      for (const Blob<T>* bottom : At(graph_.bottoms, l)) bottoms.push_back(bottom->shape());
      const int64_t of_layer = FactorRowsOf(layer, i, bottoms);
      if (of_layer == 0) return 0;
      rows += of_layer;
    }
  }
  return rows;
}

template <typename T>
bool Parameters<T>::RequestFactors(int param, bool wanted) {
  if (wanted && FactorRows(param) == 0) return false;
  for (int l = 0; l < graph_.size(); ++l) {
    for (int i = 0; i < Count(UsedBy(l)); ++i) {
      if (At(UsedBy(l), i) == param) At(graph_.layers, l)->set_gives_factors(i, wanted);
    }
  }
  return true;
}

// Layers (first, last) in net order that run backward while the gradient is in use. A layer in
// place may be fused into the one that made its blob, so that it lasts until then, whether it is
// fused at the moment or not.
template <typename T>
std::pair<int, int> Parameters<T>::GradientSpan(int param) const {
  int first = INT_MAX, last = 0;
  for (int l = 0; l < graph_.size(); ++l) {
    if (std::ranges::find(UsedBy(l), param) == UsedBy(l).end()) continue;
    last = l;
    int maker = l;
    const std::vector<int>& tops = At(graph_.top_ids, l);
    if (!tops.empty()) {
      const auto made = std::ranges::find_if(graph_.top_ids, [&](const std::vector<int>& ids) {
        return std::ranges::find(ids, tops[0]) != ids.end();
      });
      maker = static_cast<int>(made - graph_.top_ids.begin());
    }
    first = std::min(first, maker);
  }
  return {first, last};
}

// Fills in where each gradient begins; returns how many elements there are in all.
template <typename T>
size_t Parameters<T>::LayOutReusedGradients(std::vector<int64_t>* offsets) const {
  const auto padded = [&](size_t p) { return Padded(params_[p].blob->count()); };
  std::vector<std::vector<size_t>> born(graph_.layers.size()), dead(graph_.layers.size());
  for (size_t p = 0; p < params_.size(); ++p) {
    if (params_[p].frozen() || padded(p) == 0) continue;
    const auto [first, last] = GradientSpan(static_cast<int>(p));
    At(born, last).push_back(p);
    At(dead, first).push_back(p);
  }
  FreeRanges places(SIZE_MAX / 2);
  size_t count = 0;
  for (size_t l = graph_.layers.size(); l-- > 0;) {
    for (const size_t p : born[l]) {
      const size_t place = places.Take(padded(p));
      (*offsets)[p] = static_cast<int64_t>(place);
      count = std::max(count, place + padded(p));
    }
    for (const size_t p : dead[l]) places.Give(static_cast<size_t>((*offsets)[p]), padded(p));
  }
  for (size_t p = 0; p < params_.size(); ++p) {
    if (!params_[p].frozen()) continue;
    (*offsets)[p] = static_cast<int64_t>(count);
    count += padded(p);
  }
  return count;
}

template <typename T>
void Parameters<T>::PlaceGradients(Stream& stream, GradientLife life, BufferUse use) {
  if (gradient_arena_ != nullptr && life == gradient_life_ && use == gradient_use_) return;
  gradient_life_ = life;
  gradient_use_ = use;
  size_t count = static_cast<size_t>(arena_count_);
  std::vector<int64_t> offsets;
  for (const Param<T>& param : params_) offsets.push_back(param.arena_offset);
  if (life == GradientLife::kBackward) count = LayOutReusedGradients(&offsets);
  gradient_arena_ = std::make_shared<Buffer>(use);
  gradient_arena_->Get(stream, count * sizeof(T));
  for (size_t p = 0; p < params_.size(); ++p) {
    params_[p].blob->PlaceDiff(gradient_arena_, offsets[p]);
  }
  ForEachSharer([](Blob<T>& blob, const Blob<T>& owner) { blob.ShareDiff(owner); });
}

template <typename T>
void Parameters<T>::ClearGradients(Stream& stream) {
  for (const Param<T>& param : params_) param.blob->ZeroDiff(stream);
}

template int Parameters<float>::OnlyUserOf(int) const;
template int Parameters<double>::OnlyUserOf(int) const;
template int64_t Parameters<float>::FactorRows(int) const;
template int64_t Parameters<double>::FactorRows(int) const;
template bool Parameters<float>::RequestFactors(int, bool);
template bool Parameters<double>::RequestFactors(int, bool);
template void Parameters<float>::PlaceGradients(Stream&, GradientLife, BufferUse);
template void Parameters<double>::PlaceGradients(Stream&, GradientLife, BufferUse);
template void Parameters<float>::ClearGradients(Stream&);
template void Parameters<double>::ClearGradients(Stream&);

}  // namespace carafe
