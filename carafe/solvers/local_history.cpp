#include "carafe/solvers/local_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "carafe/base/index.h"

namespace carafe {
namespace {

constexpr std::string_view kOuter = "outer momentum of ";
constexpr std::string_view kHistory = "local history ";
constexpr size_t kPiece = size_t{1} << 16;  // elements that are gathered at a time

std::string NameOf(int blob, int rank, int ranks) {
  return fmt::format("{}{}, rank {} of {}", kHistory, blob, rank, ranks);
}

template <typename T>
std::vector<T> Piece(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

template <typename T>
bool LocalHistory<T>::IsName(const std::string& tensor) {
  return tensor.starts_with(kOuter) || tensor.starts_with(kHistory);
}

template <typename T>
void LocalHistory<T>::Gather(Exchange<T>& exchange, Group& group, Stream& stream,
                             const std::vector<Blob<T>>& history) {
  tensors_.clear();
  if (group.rank() == 0)
    for (const StateTensor<T>& tensor : exchange.state())
      if (IsName(tensor.name))
        tensors_[tensor.name].assign(tensor.data, tensor.data + tensor.count);
  if (group.size() == 1) return;
  for (int i = 0; i < Count(history); ++i) {
    const std::vector<T> mine = At(history, i).DataToHost(stream);
    for (size_t begin = 0; begin < mine.size(); begin += kPiece) {
      const size_t count = std::min(kPiece, mine.size() - begin);
      // Rank 0 writes its own by itself.
      const std::string bytes =
          group.rank() == 0
              ? std::string()
              : std::string(reinterpret_cast<const char*>(mine.data() + begin), count * sizeof(T));
      const std::vector<std::string> all = group.AllGather(bytes, "the ranks' histories");
      for (int rank = 1; group.rank() == 0 && rank < group.size(); ++rank) {
        std::vector<T>& whole = tensors_[NameOf(i, rank, group.size())];
        const std::vector<T> piece = Piece<T>(At(all, rank));
        whole.insert(whole.end(), piece.begin(), piece.end());
      }
    }
  }
}

template <typename T>
void LocalHistory<T>::Restore(Exchange<T>& exchange, Group& group, Stream& stream,
                              std::vector<Blob<T>>& history) {
  const auto share = [&](std::vector<T>& values) {
    group.Broadcast(values.data(), values.size() * sizeof(T), 0, "what ranks keep of local steps");
  };
  for (const StateTensor<T>& tensor : exchange.state()) {
    if (!IsName(tensor.name)) continue;
    std::vector<T> values(static_cast<size_t>(tensor.count));
    const auto found = tensors_.find(tensor.name);
    if (found != tensors_.end() && found->second.size() == values.size()) values = found->second;
    share(values);
    std::ranges::copy(values, tensor.data);
  }
  int stored = StoredRanks();
  group.Broadcast(&stored, sizeof stored, 0, "the number of histories");
  for (int i = 0; stored > 1 && i < Count(history); ++i) {
    Blob<T>& blob = At(history, i);
    std::vector<T> sum = blob.DataToHost(stream);  // rank 0's, on all ranks
    for (int rank = 1; rank < stored; ++rank) {
      std::vector<T> values(sum.size());
      const auto found = tensors_.find(NameOf(i, rank, stored));
      if (found != tensors_.end() && found->second.size() == values.size()) values = found->second;
      if (stored != group.size()) {  // rank 0 knows them all
        for (size_t k = 0; k < sum.size(); ++k) sum[k] += values[k];
        continue;
      }
      share(values);
      if (rank == group.rank()) blob.SetData(stream, values);
    }
    if (stored == group.size()) continue;
    for (T& value : sum) value /= static_cast<T>(stored);
    share(sum);
    blob.SetData(stream, sum);
  }
  tensors_.clear();
}

template <typename T>
int LocalHistory<T>::StoredRanks() const {
  int ranks = 1;
  for (const auto& [name, values] : tensors_)
    if (name.starts_with(kHistory))
      ranks = std::max(ranks, std::atoi(name.c_str() + name.rfind(" of ") + 4));
  return ranks;
}

template class LocalHistory<float>;
template class LocalHistory<double>;

}  // namespace carafe
