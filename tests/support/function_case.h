// Tests that all layers share which are one function of each element.
#pragma once

#include <string>
#include <vector>

namespace carafe {

struct FunctionCase {
  std::string text;  // the layer
  double (*function)(double);
  std::vector<double> kinks = {};  // inputs where there is no derivative
  double least = -1e30;            // inputs are folded to at least this
  bool in_place = true;            // also in place, where the gradient must be right, too
};

// Checks the shape of the top, its values against `function`, and the gradients in double.
void ExpectFollowsFormula(const FunctionCase& test);

// Values and gradients at -1000 and 1000 are finite.
void ExpectFiniteFarFromZero(const std::string& type);

}  // namespace carafe
