// What a case found: arrays compared by the rules of tests/golden/README.md, and other checks.
#pragma once

#include <string>
#include <vector>

#include "array.h"

namespace carafe::golden {

// Limits of one comparison; an array passes if all its elements keep to either.
struct Tolerance {
  double relative = 1e-4;  // of |expected|, or of 5 % of the array's largest value
  double absolute = 1e-6;
};

// Collects the failures of one case.
class Report {
 public:
  void Compare(const std::string& what, const Array& expected, const Array& got,
               const Tolerance& tolerance);
  void Check(bool condition, const std::string& what);

  int compared() const { return compared_; }
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  int compared_ = 0;
  std::vector<std::string> failures_;
};

}  // namespace carafe::golden
