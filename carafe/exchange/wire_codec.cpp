#include "carafe/exchange/wire_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/exchange/short_floats.h"

namespace carafe {
namespace {

// What was lost of a value that is not finite cannot be made up for.
float Lost(float value, float sent) { return std::isfinite(value) ? value - sent : 0.0f; }

using ToShort = uint16_t (*)(float);
using FromShort = float (*)(uint16_t);

template <ToShort kTo, FromShort kFrom>
class ShortFloat final : public Codec {
 public:
  ShortFloat(std::string name, ErrorFeedback feedback)
      : name_(std::move(name)), feedback_(feedback) {}
  std::string name() const override { return name_; }
  size_t EncodedBytes(int64_t count) const override {
    return static_cast<size_t>(count) * sizeof(uint16_t);
  }
  bool has_residual() const override { return feedback_ == ErrorFeedback::kOn; }
  void Encode(const float* values, int64_t count, float* residual,
              std::byte* encoded) const override {
    for (int64_t i = 0; i < count; ++i) {
      const float value = residual ? values[i] + residual[i] : values[i];
      const uint16_t half = kTo(value);
      std::memcpy(encoded + i * int64_t{sizeof half}, &half, sizeof half);
      if (residual) residual[i] = Lost(value, kFrom(half));
    }
  }
  void Decode(const std::byte* encoded, int64_t count, float* values) const override {
    for (int64_t i = 0; i < count; ++i) {
      uint16_t half = 0;
      std::memcpy(&half, encoded + i * int64_t{sizeof half}, sizeof half);
      values[i] = kFrom(half);
    }
  }

 private:
  const std::string name_;
  const ErrorFeedback feedback_;
};

// The k largest in magnitude as k indices of 32 bits, ascending, and k floats; of two that are
// equal the one that comes first. Where that is no shorter than all floats, all floats.
class TopK final : public Codec {
 public:
  TopK(std::string name, double ratio, ErrorFeedback feedback)
      : name_(std::move(name)), ratio_(ratio), feedback_(feedback) {}
  std::string name() const override { return name_; }
  size_t EncodedBytes(int64_t count) const override {
    return static_cast<size_t>(SendsAll(count) ? count : 2 * Kept(count)) * sizeof(float);
  }
  bool has_residual() const override { return feedback_ == ErrorFeedback::kOn; }
  bool per_element() const override { return false; }
  void Encode(const float* gradient, int64_t count, float* residual,
              std::byte* encoded) const override {
    if (count == 0) return;
    // What is not sent stays in the residual: add up there.
    for (int64_t i = 0; residual && i < count; ++i) residual[i] += gradient[i];
    const float* const values = residual ? residual : gradient;
    if (SendsAll(count)) {
      std::memcpy(encoded, values, static_cast<size_t>(count) * sizeof(float));
      if (residual) std::fill_n(residual, count, 0.0f);
      return;
    }
    const int64_t kept = Kept(count);
    const uint32_t threshold = Threshold(values, count, kept);
    int64_t larger = 0;
    for (int64_t i = 0; i < count; ++i) larger += Magnitude(values[i]) > threshold;
    int64_t equal = kept - larger;  // of those that are as large as the threshold: so many
    std::byte* const floats = encoded + kept * int64_t{sizeof(uint32_t)};
    int64_t at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t magnitude = Magnitude(values[i]);
      if (magnitude > threshold || (magnitude == threshold && equal-- > 0)) {
        const auto index = static_cast<uint32_t>(i);
        std::memcpy(encoded + at * 4, &index, 4);
        std::memcpy(floats + at * 4, &values[i], 4);
        ++at;
        if (residual) residual[i] = 0;
      } else if (residual) {
        residual[i] = Lost(residual[i], 0);
      }
    }
  }
  void Decode(const std::byte* encoded, int64_t count, float* values) const override {
    if (count == 0) return;
    if (SendsAll(count)) {
      std::memcpy(values, encoded, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    std::fill_n(values, count, 0.0f);
    const int64_t kept = Kept(count);
    const std::byte* const floats = encoded + kept * int64_t{sizeof(uint32_t)};
    for (int64_t at = 0; at < kept; ++at) {
      uint32_t index = 0;
      std::memcpy(&index, encoded + at * 4, 4);
      if (int64_t{index} >= count)
        throw CommError(fmt::format("element {} of {} arrived by {}", index, count, name_),
                        "all ranks must run the same program; check the memory of the hosts");
      std::memcpy(&values[index], floats + at * 4, 4);
    }
  }

 private:
  // As integers the magnitudes of floats have their order, infinity and NaN at the end.
  static uint32_t Magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }
  int64_t Kept(int64_t count) const {
    const auto kept = static_cast<int64_t>(std::ceil(ratio_ * static_cast<double>(count)));
    return std::clamp<int64_t>(kept, 1, count);
  }
  bool SendsAll(int64_t count) const { return count == 0 || 2 * Kept(count) >= count; }
  // The magnitude of the last one that is kept.
  static uint32_t Threshold(const float* values, int64_t count, int64_t kept) {
    thread_local std::vector<uint32_t> magnitudes;
    magnitudes.resize(static_cast<size_t>(count));
    std::transform(values, values + count, magnitudes.begin(), Magnitude);
    const auto last = magnitudes.begin() + (kept - 1);
    std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
    return *last;
  }

  const std::string name_;
  const double ratio_;
  const ErrorFeedback feedback_;
};

// "topk:0.01" has the ratio 0.01; 0 if there is none.
double RatioOf(const std::string& wire) {
  constexpr std::string_view kName = "topk:";
  if (!wire.starts_with(kName)) return 0;
  double ratio = 0;
  const char* const end = wire.data() + wire.size();
  const auto [stop, error] = std::from_chars(wire.data() + kName.size(), end, ratio);
  return error == std::errc() && stop == end && ratio > 0 && ratio < 1 ? ratio : 0;
}

}  // namespace

std::unique_ptr<const Codec> MakeWireCodec(const std::string& wire, ErrorFeedback feedback) {
  if (wire == "fp32") return nullptr;
  if (wire == "bf16") return std::make_unique<ShortFloat<ToBf16, FromBf16>>(wire, feedback);
  if (wire == "fp16") return std::make_unique<ShortFloat<ToFp16, FromFp16>>(wire, feedback);
  const double ratio = RatioOf(wire);
  if (ratio > 0) return std::make_unique<TopK>(wire, ratio, feedback);
  throw ConfigError(fmt::format("--wire is \"{}\"", wire),
                    "use fp32, bf16, fp16, or topk:R with a ratio R between 0 and 1 (topk:0.01)");
}

}  // namespace carafe
