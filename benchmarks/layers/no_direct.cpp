// A build without oneDNN: ours is timed alone.
#include "benchmarks/layers/direct.h"

namespace carafe::benchmark {

std::unique_ptr<Direct> MakeDirect(const ConvolutionShape&) { return nullptr; }

}  // namespace carafe::benchmark
