#include "carafe/train/detection_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/comm/comm_thread.h"

namespace carafe {
namespace {

struct Point {
  double recall, precision;
};

// After each box, best first.
std::vector<Point> Curve(const ClassDetections& detections) {
  std::vector<std::pair<double, bool>> found = detections.found;
  std::ranges::stable_sort(found, std::greater<>{}, &std::pair<double, bool>::first);
  std::vector<Point> curve;
  double right = 0;
  for (const auto& [score, is_right] : found) {
    right += is_right ? 1 : 0;
    curve.push_back({right / detections.given, right / static_cast<double>(curve.size() + 1)});
  }
  return curve;
}

// Each point gets the best precision of its recall or a larger one.
void TakeBest(std::vector<Point>* curve) {
  double best = 0;
  for (auto point = curve->rbegin(); point != curve->rend(); ++point) {
    best = std::max(best, point->precision);
    point->precision = best;
  }
}

double AreaUnder(const std::vector<Point>& curve) {
  double area = 0, before = 0;
  for (const Point& point : curve) {
    area += (point.recall - before) * point.precision;
    before = point.recall;
  }
  return area;
}

using Rows = std::vector<double>;  // five numbers each
using Classes = std::map<int, ClassDetections>;

void AddRows(const Rows& rows, Classes* classes) {
  for (size_t r = 0; r + 5 <= rows.size(); r += 5) {
    ClassDetections& of_class = (*classes)[static_cast<int>(rows[r + 1])];
    if (rows[r] < 0) {
      of_class.given += rows[r + 2];
    } else if (rows[r + 3] != 0 || rows[r + 4] != 0) {  // not a difficult one
      of_class.found.emplace_back(rows[r + 2], rows[r + 3] != 0);
    }
  }
}

// A batch is sent as its loss, and for each output the number of its values and these.
template <typename T>
void AddOutputs(Stream& stream, const Net<T>& net, Rows* mine) {
  for (const int id : net.output_ids()) {
    const Blob<T>& blob = *At(net.blobs(), id);
    if (blob.shape().rank() != 4 || blob.shape()[3] != 5) {
      throw ConfigError(fmt::format("output \"{}\" of the test net is {}, not rows of 5 numbers",
                                    At(net.blob_names(), id), blob.shape().ToString()),
                        "with eval_type: \"detection\" let the outputs be tops of "
                        "DetectionEvaluate, and give the others to a Silence layer");
    }
    mine->push_back(static_cast<double>(blob.count()));
    for (const T value : blob.DataToHost(stream)) mine->push_back(static_cast<double>(value));
  }
}

class ReceivedBatches {
 public:
  explicit ReceivedBatches(const std::string& bytes) : values_(bytes.size() / sizeof(double)) {
    if (!bytes.empty()) std::memcpy(values_.data(), bytes.data(), values_.size() * sizeof(double));
  }
  double Next() {
    Ensure(at_ < values_.size(), "a rank's detections were cut off");
    return values_[at_++];
  }
  Rows NextRows() {
    const auto count = static_cast<size_t>(Next());
    Ensure(count <= values_.size() - at_, "a rank's detections were cut off");
    at_ += count;
    return {values_.begin() + static_cast<int64_t>(at_ - count),
            values_.begin() + static_cast<int64_t>(at_)};
  }

 private:
  Rows values_;
  size_t at_ = 0;
};

}  // namespace

double AveragePrecision(const ClassDetections& detections, const std::string& version) {
  if (detections.given <= 0) return 0;
  std::vector<Point> curve = Curve(detections);
  if (version == "Integral") return AreaUnder(curve);
  TakeBest(&curve);
  if (version == "MaxIntegral") return AreaUnder(curve);
  double sum = 0;
  for (int tenths = 0; tenths <= 10; ++tenths) {
    const auto reached = std::ranges::find_if(
        curve, [&](const Point& point) { return point.recall >= tenths / 10.0; });
    if (reached != curve.end()) sum += reached->precision;
  }
  return sum / 11;
}

template <typename T>
TestResult RunDetectionTest(Group& group, Stream& stream, const Net<T>& net, int64_t first,
                            int64_t count, const std::string& version,
                            const std::function<double(int64_t, int64_t)>& forward,
                            const std::function<void(int64_t)>& done,
                            const std::function<void(int, double)>& per_class) {
  constexpr std::string_view kWhat = "test results";
  Rows mine;
  for (int64_t b = group.rank(); b < count; b += group.size()) {
    mine.push_back(forward(first + b, group.size()));
    AddOutputs(stream, net, &mine);
    if (done) done(b + 1);
    if (group.thread()) group.thread()->Check(kWhat);  // a test may last long
  }
  const std::vector<std::string> all = group.AllGather(
      std::string(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double)), kWhat);
  TestResult result;
  if (group.rank() != 0 || count == 0) return result;
  std::vector<ReceivedBatches> received(all.begin(), all.end());
  std::vector<Classes> outputs(net.output_ids().size());
  for (int64_t b = 0; b < count; ++b) {
    ReceivedBatches& from = At(received, b % group.size());
    result.loss += from.Next() / static_cast<double>(count);
    for (Classes& classes : outputs) AddRows(from.NextRows(), &classes);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    double sum = 0;
    int classes = 0;
    for (const auto& [label, detections] : outputs[o]) {
      if (detections.given <= 0) continue;
      const double precision = AveragePrecision(detections, version);
      if (per_class) per_class(label, precision);
      sum += precision;
      ++classes;
    }
    result.scores.push_back({.blob = At(net.blob_names(), net.output_ids()[o]),
                             .value = classes > 0 ? sum / classes : 0});
  }
  return result;
}

#define CARAFE_INSTANTIATE(T)                                                              \
  template TestResult RunDetectionTest<T>(                                                 \
      Group&, Stream&, const Net<T>&, int64_t, int64_t, const std::string&,                \
      const std::function<double(int64_t, int64_t)>&, const std::function<void(int64_t)>&, \
      const std::function<void(int, double)>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
