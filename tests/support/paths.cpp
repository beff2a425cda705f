#include "tests/support/paths.h"

namespace carafe {

std::string SourceDir() { return CARAFE_SOURCE_DIR; }

}  // namespace carafe
