#include "carafe/exchange/factor_gather.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "carafe/base/error.h"
#include "carafe/exchange/factor_product.h"

namespace carafe {
namespace {

template <typename T>
std::string RowsText(std::span<const ParamInfo<T>> params, int workers) {
  std::string text;
  for (const ParamInfo<T>& param : params) {
    if (param.factors.rows == 0) continue;
    Ensure(Count(param.other_factor_rows) == workers - 1, "rows of factors for other workers");
    text += fmt::format(" {}", param.factors.rows);
    for (const int64_t rows : param.other_factor_rows) text += fmt::format(" {}", rows);
  }
  return text;
}

}  // namespace

template <typename T>
FactorGather<T>::FactorGather(Group& group, std::span<const ParamInfo<T>> params, int workers)
    : first_worker_(group.rank() * workers), blocks_(params.size()) {
  // By rank: for every parameter that is taken the rows of every worker.
  std::vector<std::istringstream> lists;
  for (const std::string& text : group.AllGather(RowsText(params, workers), "the rows of factors"))
    lists.emplace_back(text);
  const BufferUse use = group.shares_memory() ? BufferUse::kShareable : BufferUse::kOwn;
  for (size_t p = 0; p < params.size(); ++p) {
    if (params[p].factors.rows == 0) continue;
    std::vector<int64_t> rows;
    for (std::istringstream& list : lists) {
      for (int w = 0; w < workers; ++w) {
        int64_t of_worker = -1;
        list >> of_worker;
        Ensure(of_worker >= 0, "the ranks do not exchange the same factors");
        rows.push_back(of_worker);
      }
    }
    blocks_[p] = std::make_unique<Block>(use);
    blocks_[p]->name = params[p].name;
    blocks_[p]->shape = params[p].factors;
    LayOut(*blocks_[p], rows, workers);
  }
}

template <typename T>
void FactorGather<T>::LayOut(Block& block, std::span<const int64_t> rows, int workers) {
  int64_t at = 0, all_rows = 0;
  for (int first = 0; first < Count(rows); first += workers) {  // rank by rank
    const int64_t begin = at;
    for (int w = first; w < first + workers; ++w) {
      block.places.push_back({.a = at, .b = 0, .rows = At(rows, w)});
      at += At(rows, w) * block.shape.a_width;
      all_rows += At(rows, w);
    }
    for (int w = first; w < first + workers; ++w) {
      At(block.places, w).b = at;
      at += At(rows, w) * block.shape.b_width;
    }
    block.parts.push_back(at - begin);
  }
  block.shape.rows = all_rows;
  block.offered.resize(static_cast<size_t>(workers));
  Stream host;
  block.memory = static_cast<T*>(block.buffer.Get(host, static_cast<size_t>(at) * sizeof(T)));
  block.a.resize(static_cast<size_t>(all_rows * block.shape.a_width));
  block.b.resize(static_cast<size_t>(all_rows * block.shape.b_width));
  block.product.resize(static_cast<size_t>(ProductMemory<T>(block.shape)));
}

template <typename T>
void FactorGather<T>::Offer(int worker, int param, const StepFactors<T>& factors) {
  Block& block = *At(blocks_, param);
  const Place& place = At(block.places, first_worker_ + worker);
  const FactorShape& shape = factors.shape;
  int64_t& offered = At(block.offered, worker);
  Ensure(shape.a_width == block.shape.a_width && shape.b_width == block.shape.b_width,
         "factors of another shape than was announced");
  if (offered + shape.rows > place.rows)
    throw ConfigError(
        fmt::format("{}: an iteration has more than the {} rows that were planned for its factors",
                    block.name, place.rows),
        "give batches that keep their size, or exchange this layer densely: --plan=LAYER:dense");
  T* a = block.memory + place.a + offered * shape.a_width;
  const int64_t count = shape.rows * shape.a_width;
  if (factors.scale == T(1)) {
    std::copy_n(factors.a, count, a);
  } else {
    std::transform(factors.a, factors.a + count, a, [&](T x) { return factors.scale * x; });
  }
  std::copy_n(factors.b, shape.rows * shape.b_width,
              block.memory + place.b + offered * shape.b_width);
  offered += shape.rows;
}

template <typename T>
void FactorGather<T>::Close(int worker, int param) {
  Block& block = *At(blocks_, param);
  const Place& place = At(block.places, first_worker_ + worker);
  int64_t& offered = At(block.offered, worker);
  const auto clear = [&](int64_t begin, int64_t width) {
    std::fill(block.memory + begin + offered * width, block.memory + begin + place.rows * width,
              T(0));
  };
  clear(place.a, block.shape.a_width);
  clear(place.b, block.shape.b_width);
  offered = 0;
}

template <typename T>
void FactorGather<T>::Form(int param, int64_t step, T* gradient, Stream& stream) {
  Block& block = *At(blocks_, param);
  const FactorShape& shape = block.shape;
  const std::lock_guard lock(block.mutex);
  if (block.formed == step) return;
  block.formed = step;
  T *a = block.a.data(), *b = block.b.data();
  for (int64_t row = 0, placed = 0; placed < shape.rows; ++row) {
    for (const Place& place : block.places) {
      if (row >= place.rows) continue;
      a = std::copy_n(block.memory + place.a + row * shape.a_width, shape.a_width, a);
      b = std::copy_n(block.memory + place.b + row * shape.b_width, shape.b_width, b);
      ++placed;
    }
  }
  MultiplyFactors(stream, shape, block.a.data(), block.b.data(), block.product.data(), gradient);
}

template class FactorGather<float>;
template class FactorGather<double>;

}  // namespace carafe
