#include "carafe/train/mean_outputs.h"

#include <cstring>
#include <string>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/core/row_share.h"

namespace carafe {
namespace {

// A mean under way.
struct WeightedSum {
  double sum = 0;
  double weight = 0;
};
using OutputSums = std::vector<std::vector<WeightedSum>>;  // by output blob and element

void Add(std::vector<WeightedSum>& sums, size_t element, const WeightedSum& more) {
  if (sums.size() <= element) sums.resize(element + 1);
  sums[element].sum += more.sum;
  sums[element].weight += more.weight;
}

template <typename T>
OutputSums SumOverWorkers(WorkerTeam<T>& team) {
  OutputSums sums(team.net(0).output_ids().size());
  for (int w = 0; w < team.size(); ++w) {
    const double weight = WeightOf(team.replica(w));
    const Net<T>& net = team.net(w);
    for (size_t o = 0; o < sums.size(); ++o) {
      size_t element = 0;
      for (const T value : At(net.blobs(), net.output_ids()[o])->DataToHost(team.stream(w)))
        Add(sums[o], element++, {.sum = weight * static_cast<double>(value), .weight = weight});
    }
  }
  return sums;
}

// As bytes: for each output the number of its elements, then these.
std::string Encode(const OutputSums& sums) {
  std::string bytes;
  for (const std::vector<WeightedSum>& output : sums) {
    const size_t count = output.size();
    bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
    bytes.append(reinterpret_cast<const char*>(output.data()), count * sizeof(WeightedSum));
  }
  return bytes;
}

void AddEncoded(OutputSums& sums, const std::string& bytes) {
  size_t at = 0;
  const auto read = [&](void* to, size_t size) {
    Ensure(size <= bytes.size() - at, "the outputs of a rank were cut off");
    std::memcpy(to, bytes.data() + at, size);
    at += size;
  };
  for (std::vector<WeightedSum>& output : sums) {
    size_t count = 0;
    read(&count, sizeof count);
    for (size_t i = 0; i < count; ++i) {
      WeightedSum element;
      read(&element, sizeof element);
      Add(output, i, element);
    }
  }
}

template <typename T>
std::vector<Score> ScoresOf(const Net<T>& net, const OutputSums& sums) {
  std::vector<Score> scores;
  for (size_t o = 0; o < sums.size(); ++o) {
    const int id = net.output_ids()[o];
    for (const WeightedSum& element : sums[o]) {
      scores.push_back({.blob = At(net.blob_names(), id),
                        .element = static_cast<int>(&element - sums[o].data()),
                        .single = sums[o].size() == 1,
                        .value = element.sum / element.weight,
                        .loss_weight = net.blob_loss_weight(id)});
    }
  }
  return scores;
}

}  // namespace

template <typename T>
std::vector<Score> MeanOutputs(Group& group, WorkerTeam<T>& team) {
  const Net<T>& net = team.net(0);
  OutputSums sums(net.output_ids().size());
  for (const std::string& bytes : group.AllGather(Encode(SumOverWorkers(team)), "train outputs"))
    AddEncoded(sums, bytes);
  return ScoresOf(net, sums);
}

template <typename T>
std::vector<Score> OwnOutputs(WorkerTeam<T>& team) {
  return ScoresOf(team.net(0), SumOverWorkers(team));
}

template std::vector<Score> OwnOutputs(WorkerTeam<float>&);
template std::vector<Score> OwnOutputs(WorkerTeam<double>&);
template std::vector<Score> MeanOutputs(Group&, WorkerTeam<float>&);
template std::vector<Score> MeanOutputs(Group&, WorkerTeam<double>&);

}  // namespace carafe
