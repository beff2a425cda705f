// Where the gradients of parameters lie: each in its place for a whole step, or one after the other
// in the same few places.
#include <algorithm>
#include <climits>

#include "carafe/net/net.h"
#include "carafe/net/param_alignment.h"

namespace carafe {
namespace {

size_t Padded(int64_t count) { return static_cast<size_t>(AlignedCount(count)); }

}  // namespace

template <typename T>
int Net<T>::OnlyUserOf(int param) const {
  int user = -1;
  for (size_t l = 0; l < owner_of_.size(); ++l) {
    for (const int owner : owner_of_[l]) {
      if (owner != param) continue;
      if (user >= 0) return -1;
      user = static_cast<int>(l);
    }
  }
  return user;
}

// Layers (first, last) in net order that run backward while the gradient is in use. A layer in
// place may be done together with the one that made its blob (Fusion), so that it lasts until then,
// whatever the plan of the day is.
template <typename T>
std::pair<int, int> Net<T>::GradientSpan(int param) const {
  int first = INT_MAX, last = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (std::ranges::find(owner_of_[l], param) == owner_of_[l].end()) continue;
    last = static_cast<int>(l);
    size_t maker = l;
    if (!top_ids_[l].empty()) {
      maker = 0;
      while (std::ranges::find(top_ids_[maker], top_ids_[l][0]) == top_ids_[maker].end()) ++maker;
    }
    first = std::min(first, static_cast<int>(maker));
  }
  return {first, last};
}

// Fills in where each gradient begins; returns how many elements there are in all.
template <typename T>
size_t Net<T>::LetGradientsTakeTurns(std::vector<int64_t>* offsets) const {
  const auto padded = [&](size_t p) { return Padded(params_[p].blob->count()); };
  std::vector<std::vector<size_t>> born(layers_.size()), dead(layers_.size());
  for (size_t p = 0; p < params_.size(); ++p) {
    if (params_[p].frozen() || padded(p) == 0) continue;
    const auto [first, last] = GradientSpan(static_cast<int>(p));
    born[static_cast<size_t>(last)].push_back(p);
    dead[static_cast<size_t>(first)].push_back(p);
  }
  FreeRanges places(SIZE_MAX / 2);
  size_t count = 0;
  for (size_t l = layers_.size(); l-- > 0;) {
    for (const size_t p : born[l]) {
      (*offsets)[p] = static_cast<int64_t>(places.Take(padded(p)));
      count = std::max(count, static_cast<size_t>((*offsets)[p]) + padded(p));
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
void Net<T>::PlaceGradients(Stream& stream, GradientLife life, BufferUse use) {
  if (gradient_arena_ != nullptr && life == gradient_life_ && use == gradient_use_) return;
  gradient_life_ = life;
  gradient_use_ = use;
  size_t count = static_cast<size_t>(arena_count_);
  std::vector<int64_t> offsets(params_.size());
  for (size_t p = 0; p < params_.size(); ++p) offsets[p] = params_[p].arena_offset;
  if (life == GradientLife::kBackward) count = LetGradientsTakeTurns(&offsets);
  gradient_arena_ = std::make_shared<Buffer>(use);
  gradient_arena_->Get(stream, count * sizeof(T));
  for (size_t p = 0; p < params_.size(); ++p) {
    params_[p].blob->PlaceDiff(gradient_arena_, offsets[p]);
  }
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (size_t i = 0; i < owner_of_[l].size(); ++i) {
      const Param<T>& owner = params_[static_cast<size_t>(owner_of_[l][i])];
      Blob<T>& blob = *layers_[l]->blobs()[i];
      if (&blob != owner.blob) blob.ShareDiff(*owner.blob);
    }
  }
}

template int Net<float>::OnlyUserOf(int) const;
template int Net<double>::OnlyUserOf(int) const;
template std::pair<int, int> Net<float>::GradientSpan(int) const;
template std::pair<int, int> Net<double>::GradientSpan(int) const;
template void Net<float>::PlaceGradients(Stream&, GradientLife, BufferUse);
template void Net<double>::PlaceGradients(Stream&, GradientLife, BufferUse);
template size_t Net<float>::LetGradientsTakeTurns(std::vector<int64_t>*) const;
template size_t Net<double>::LetGradientsTakeTurns(std::vector<int64_t>*) const;

}  // namespace carafe
