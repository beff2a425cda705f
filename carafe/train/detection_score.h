// The mean average precision of a detector (solver `eval_type: "detection"`), from the rows of
// DetectionEvaluate over all test batches of all ranks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "carafe/train/tester.h"

namespace carafe {

// What a test has seen of one class.
struct ClassDetections {
  double given = 0;                            // boxes that there are
  std::vector<std::pair<double, bool>> found;  // score, and whether it is right
};

// `version`, as SSD has them: "11point" (VOC 2007: the mean of the best precision at recalls of 0,
// 0.1, .. 1 or more), "MaxIntegral" (VOC 2012: the area under the best precision at each recall or
// more) or "Integral" (the area under the precision itself). 0 without a box.
double AveragePrecision(const ClassDetections& detections, const std::string& version);

// As RunTest; the only score of each output is the mean of its classes' average precisions. Classes
// are all that have a given box. `per_class` is told each, on rank 0. Throws ConfigError for an
// output that is not of DetectionEvaluate.
template <typename T>
TestResult RunDetectionTest(Group& group, Stream& stream, const Net<T>& net, int64_t first,
                            int64_t count, const std::string& version,
                            const std::function<double(int64_t batch, int64_t stride)>& forward,
                            const std::function<void(int64_t)>& done,
                            const std::function<void(int label, double precision)>& per_class);

}  // namespace carafe
