#include "carafe/layers/filler.h"

#include <fmt/format.h>

#include <cmath>

#include "carafe/base/error.h"
#include "carafe/base/random.h"
#include "carafe/base/suggest.h"

namespace carafe {
namespace {

// The n of xavier and msra: how many inputs (or outputs) a unit has.
double Fan(const FillerParameter& filler, const Shape& shape) {
  const double count = static_cast<double>(shape.Count());
  const double fan_in = count / static_cast<double>(std::max<int64_t>(shape.LegacyDim(0), 1));
  const double fan_out =
      shape.rank() > 1 ? count / static_cast<double>(std::max<int64_t>(shape[1], 1)) : count;
  switch (filler.variance_norm()) {
    case FillerParameter::FAN_OUT:
      return fan_out;
    case FillerParameter::AVERAGE:
      return (fan_in + fan_out) / 2;
    default:
      return fan_in;
  }
}

void FillGaussian(const FillerParameter& filler, const Shape& shape, const std::string& where,
                  RandomSequence& random, std::vector<double>& values) {
  if (filler.std() <= 0) {
    throw ConfigError(fmt::format("{}: the gaussian filler has std {}", where, filler.std()),
                      "give a positive std, e.g. std: 0.01");
  }
  for (double& value : values) value = filler.mean() + filler.std() * random.NextGaussian();
  if (filler.sparse() < 0) return;
  // On average `sparse` of the shape(0) inputs of each output stay.
  const double keep =
      filler.sparse() / static_cast<double>(std::max<int64_t>(shape.LegacyDim(0), 1));
  for (double& value : values) {
    if (random.NextUniform() >= keep) value = 0;
  }
}

// Rows (axis 0) of positive numbers that sum to 1.
void FillUnitBall(const Shape& shape, RandomSequence& random, std::vector<double>& values) {
  const size_t rows = static_cast<size_t>(std::max<int64_t>(shape.LegacyDim(0), 1));
  const size_t width = values.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (size_t i = 0; i < width; ++i) sum += values[row * width + i] = random.NextUniform();
    for (size_t i = 0; i < width; ++i) values[row * width + i] /= sum;
  }
}

// w(x, y) = (1 - |x/f - c|)(1 - |y/f - c|), f = ceil(K/2), c = (K-1)/(2f): upsampling by f.
void FillBilinear(const Shape& shape, const std::string& where, std::vector<double>& values) {
  if (shape.rank() != 4 || shape[2] != shape[3]) {
    throw ConfigError(
        fmt::format("{}: the bilinear filler needs a 4-D blob with a square kernel, not {}", where,
                    shape.ToString()),
        "use it for the weights of a 2-D Deconvolution with one kernel_size");
  }
  const int64_t size = shape[3];
  const double f = std::ceil(static_cast<double>(size) / 2);
  const double c = static_cast<double>(size - 1) / (2 * f);
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(static_cast<int64_t>(i) % size);
    const double y = static_cast<double>(static_cast<int64_t>(i) / size % size);
    values[i] = (1 - std::fabs(x / f - c)) * (1 - std::fabs(y / f - c));
  }
}

}  // namespace

std::vector<double> FillerValues(const FillerParameter& filler, const Shape& shape, uint64_t key,
                                 const std::string& where) {
  const std::string& type = filler.type();
  if (filler.sparse() != -1 && type != "gaussian") {
    throw ConfigError(fmt::format("{}: the {} filler has no `sparse`", where, type),
                      "use type: \"gaussian\", or leave sparse away");
  }
  std::vector<double> values(static_cast<size_t>(shape.Count()));
  RandomSequence random(key);
  if (type == "constant") {
    for (double& value : values) value = filler.value();
  } else if (type == "uniform") {
    if (!(filler.min() <= filler.max())) {
      throw ConfigError(fmt::format("{}: the uniform filler goes from {} to {}", where,
                                    filler.min(), filler.max()),
                        "give a min that is not above max");
    }
    for (double& value : values) {
      value = filler.min() + (filler.max() - filler.min()) * random.NextUniform();
    }
  } else if (type == "gaussian") {
    FillGaussian(filler, shape, where, random, values);
  } else if (type == "positive_unitball") {
    FillUnitBall(shape, random, values);
  } else if (type == "xavier") {
    const double limit = std::sqrt(3.0 / Fan(filler, shape));
    for (double& value : values) value = limit * (2 * random.NextUniform() - 1);
  } else if (type == "msra") {
    const double deviation = std::sqrt(2.0 / Fan(filler, shape));
    for (double& value : values) value = deviation * random.NextGaussian();
  } else if (type == "bilinear") {
    FillBilinear(shape, where, values);
  } else {
    throw ConfigError(fmt::format("{}: unknown filler type \"{}\"", where, type),
                      DidYouMean(type, {"constant", "uniform", "gaussian", "positive_unitball",
                                        "xavier", "msra", "bilinear"}));
  }
  return values;
}

}  // namespace carafe
