// Layers that bring the first values of their parameters instead of leaving them to a filler.
#pragma once

#include <vector>

namespace carafe {

// A second base of such a layer; Net::Initialise asks for it.
class InitialValues {
 public:
  virtual ~InitialValues() = default;
  // As many as parameter `index` has elements.
  virtual std::vector<double> InitialValuesOf(int index) const = 0;
};

}  // namespace carafe
