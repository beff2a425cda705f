#include "carafe/train/tester.h"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

#include "carafe/base/error.h"
#include "carafe/comm/comm_thread.h"

namespace carafe {

std::string Score::Label() const { return single ? blob : fmt::format("{}[{}]", blob, element); }

std::string LossPart(const Score& score) {
  if (score.loss_weight == 0) return "";
  return fmt::format(" (* {:g} = {:g} loss)", score.loss_weight, score.loss_weight * score.value);
}

template <typename T>
std::vector<Score> OutputScores(Stream& stream, const Net<T>& net) {
  std::vector<Score> scores;
  for (const int id : net.output_ids()) {
    const Blob<T>& blob = *net.blobs()[static_cast<size_t>(id)];
    int element = 0;
    for (const T value : blob.DataToHost(stream)) {
      scores.push_back({.blob = net.blob_names()[static_cast<size_t>(id)],
                        .element = element++,
                        .single = blob.count() == 1,
                        .value = static_cast<double>(value),
                        .loss_weight = net.blob_loss_weight(id)});
    }
  }
  return scores;
}

template <typename T>
TestResult RunTest(Group& group, Stream& stream, const Net<T>& net, int64_t first, int64_t count,
                   const std::function<double(int64_t, int64_t)>& forward,
                   const std::function<void(int64_t)>& done) {
  // Rank r's batches one after the other, each as its loss and then all output elements.
  std::vector<double> mine;
  std::vector<Score> scores;
  constexpr std::string_view kWhat = "test results";
  for (int64_t b = group.rank(); b < count; b += group.size()) {
    mine.push_back(forward(first + b, group.size()));
    const size_t before = scores.size();
    scores = OutputScores(stream, net);
    if (b != group.rank() && scores.size() != before) {
      throw ConfigError(
          fmt::format("the outputs of the test net have {} values in batch {}, and {} before",
                      scores.size(), b, before),
          "outputs are averaged over the batches: remove those that change their size, or write "
          "eval_type: \"detection\" in the solver for tops of DetectionEvaluate");
    }
    for (const Score& score : scores) mine.push_back(score.value);
    if (done) done(b + 1);
    if (group.thread()) group.thread()->Check(kWhat);  // a test may last long
  }
  const std::vector<std::string> all = group.AllGather(
      std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double)), kWhat);
  TestResult result;
  if (group.rank() != 0 || count == 0) return result;
  const size_t width = scores.size() + 1;
  std::vector<double> sums(width, 0.0);
  for (int64_t b = 0; b < count; ++b) {
    const std::string& from = all[static_cast<size_t>(b % group.size())];
    std::vector<double> row(width);
    const size_t offset = static_cast<size_t>(b / group.size()) * width * sizeof(double);
    Ensure(offset + width * sizeof(double) <= from.size(), "a rank's test outputs changed size");
    std::memcpy(row.data(), from.data() + offset, width * sizeof(double));
    for (size_t i = 0; i < width; ++i) sums[i] += row[i];
    result.batches.emplace_back(row.begin() + 1, row.end());
  }
  result.loss = sums[0] / static_cast<double>(count);
  result.scores = scores;
  for (size_t i = 0; i < scores.size(); ++i) {
    result.scores[i].value = sums[i + 1] / static_cast<double>(count);
  }
  return result;
}

#define CARAFE_INSTANTIATE(T)                                                      \
  template std::vector<Score> OutputScores<T>(Stream&, const Net<T>&);             \
  template TestResult RunTest<T>(Group&, Stream&, const Net<T>&, int64_t, int64_t, \
                                 const std::function<double(int64_t, int64_t)>&,   \
                                 const std::function<void(int64_t)>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
