// Bilinear resizing of 8-bit pictures in fixed point: weights of 11 bits, sums of 22.
#include <algorithm>
#include <cmath>

#include "carafe/base/error.h"
#include "carafe/data/picture_codecs.h"

namespace carafe {
namespace {

constexpr int kWeightBits = 11;

// Output i is the mix of inputs first and second: (w0 in[first] + w1 in[second]) / 2^11.
struct Tap {
  int64_t first, second;
  int w0, w1;
};

// Centres of pixels aligned: output i lies at (i + 1/2) in / out - 1/2; beyond the outer centres
// the border goes on.
std::vector<Tap> TapsOf(int64_t in, int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double one = 1 << kWeightBits;
  std::vector<Tap> taps;
  taps.reserve(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i) {
    auto at = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    auto first = static_cast<int64_t>(std::floor(at));
    at -= static_cast<float>(first);
    if (first < 0) {
      first = 0;
      at = 0;
    }
    if (first >= in - 1) {
      first = in - 1;
      at = 0;
    }
    taps.push_back({first, std::min(first + 1, in - 1),
                    static_cast<int>(std::lrint((1.0f - at) * one)),
                    static_cast<int>(std::lrint(at * one))});
  }
  return taps;
}

void ResizeRow(const uint8_t* in, const std::vector<Tap>& taps, int64_t channels,
               std::vector<int>* out) {
  int* to = out->data();
  for (const Tap& tap : taps) {
    const uint8_t* a = in + tap.first * channels;
    const uint8_t* b = in + tap.second * channels;
    for (int64_t c = 0; c < channels; ++c) *to++ = a[c] * tap.w0 + b[c] * tap.w1;
  }
}

}  // namespace

Picture ResizePicture(const PictureView& picture, int64_t height, int64_t width) {
  Ensure(height >= 1 && width >= 1 && picture.height >= 1 && picture.width >= 1,
         "pictures have a pixel at least");
  Picture resized = NewPicture(height, width, picture.channels);
  if (height == picture.height && width == picture.width) {
    std::copy_n(picture.pixels, resized.pixels.size(), resized.pixels.data());
    return resized;
  }
  const std::vector<Tap> columns = TapsOf(picture.width, width);
  const std::vector<Tap> rows = TapsOf(picture.height, height);
  const auto row_size = static_cast<size_t>(width * picture.channels);
  // The two rows of the input, made wide, that the output row mixes.
  std::vector<int> wide[2] = {std::vector<int>(row_size), std::vector<int>(row_size)};
  int64_t there[2] = {-1, -1};
  const auto row_bytes = picture.width * picture.channels;
  uint8_t* out = resized.pixels.data();
  for (const Tap& tap : rows) {
    if (tap.first == there[1]) {
      std::swap(wide[0], wide[1]);
      std::swap(there[0], there[1]);
    }
    const int64_t needed[2] = {tap.first, tap.second};
    for (int k = 0; k < 2; ++k) {
      if (there[k] == needed[k]) continue;
      ResizeRow(picture.pixels + needed[k] * row_bytes, columns, picture.channels, &wide[k]);
      there[k] = needed[k];
    }
    for (size_t i = 0; i < row_size; ++i) {
      const int sum = (tap.w0 * (wide[0][i] >> 4) >> 16) + (tap.w1 * (wide[1][i] >> 4) >> 16);
      *out++ = static_cast<uint8_t>((sum + 2) >> 2);
    }
  }
  return resized;
}

}  // namespace carafe
