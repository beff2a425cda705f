#include "picture.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>

#include "carafe/base/error.h"
#include "carafe/base/file.h"

namespace {

// The next number of a PNM header; comments run from # to the end of the line.
int64_t NextNumber(const std::string& path, const std::string& bytes, size_t* at) {
  while (*at < bytes.size() && !std::isdigit(static_cast<unsigned char>(bytes[*at]))) {
    if (bytes[*at] == '#') *at = std::min(bytes.find('\n', *at), bytes.size() - 1);
    ++*at;
  }
  int64_t number = 0;
  const size_t begin = *at;
  while (*at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[*at])) &&
         *at - begin < 9) {
    number = 10 * number + (bytes[(*at)++] - '0');
  }
  if (*at == begin || number == 0) {
    throw carafe::DataError(path, -1, "its header lacks a number", "write the picture again");
  }
  return number;
}

}  // namespace

Picture ReadPicture(const std::string& path) {
  const std::string bytes = carafe::ReadFile(path);
  if (!bytes.starts_with("P6") && !bytes.starts_with("P5")) {
    throw carafe::DataError(path, -1, "this is no binary PPM or PGM picture",
                            "convert it, e.g. with ImageMagick: convert cat.jpg cat.ppm");
  }
  size_t at = 2;
  const int64_t width = NextNumber(path, bytes, &at), height = NextNumber(path, bytes, &at),
                most = NextNumber(path, bytes, &at);
  const int64_t channels = bytes[1] == '6' ? 3 : 1;
  ++at;  // one blank ends the header
  const auto there = static_cast<int64_t>(bytes.size() - std::min(at, bytes.size()));
  if (most > 255 || width > there || height > there || width * height > there / channels) {
    throw carafe::DataError(path, -1, "it is cut off, or has more than 8 bits a value",
                            "write the picture again");
  }
  Picture picture{
      static_cast<int>(channels), static_cast<int>(height), static_cast<int>(width), {}};
  picture.values.resize(static_cast<size_t>(channels * height * width));
  for (int64_t pixel = 0; pixel < height * width; ++pixel) {
    for (int64_t c = 0; c < channels; ++c) {
      const size_t from = at + static_cast<size_t>(pixel * channels + c);
      const int64_t plane = channels - 1 - c;  // red, green, blue become blue, green, red
      picture.values[static_cast<size_t>(plane * height * width + pixel)] =
          static_cast<float>(static_cast<uint8_t>(bytes[from])) * 255.0f / static_cast<float>(most);
    }
  }
  return picture;
}

Picture Resize(const Picture& picture, int height, int width) {
  if (picture.height == height && picture.width == width) return picture;
  Picture result{picture.channels, height, width, {}};
  // The two neighbours of output i among `from` inputs, and the weight of the second.
  const auto neighbours = [](int i, int to, int from, int* first, int* second) {
    const float at =
        (static_cast<float>(i) + 0.5f) * static_cast<float>(from) / static_cast<float>(to) - 0.5f;
    const float below = std::floor(at);
    *first = std::clamp(static_cast<int>(below), 0, from - 1);
    *second = std::clamp(static_cast<int>(below) + 1, 0, from - 1);
    return at - below;
  };
  for (int c = 0; c < picture.channels; ++c) {
    const float* plane =
        picture.values.data() + static_cast<size_t>(c) * picture.height * picture.width;
    for (int y = 0; y < height; ++y) {
      int top, bottom;
      const float v = neighbours(y, height, picture.height, &top, &bottom);
      for (int x = 0; x < width; ++x) {
        int left, right;
        const float u = neighbours(x, width, picture.width, &left, &right);
        const auto at = [&](int row, int column) { return plane[row * picture.width + column]; };
        const float above = at(top, left) + u * (at(top, right) - at(top, left));
        const float below = at(bottom, left) + u * (at(bottom, right) - at(bottom, left));
        result.values.push_back(above + v * (below - above));
      }
    }
  }
  return result;
}

Picture WithChannels(const Picture& picture, int channels) {
  if (picture.channels == channels) return picture;
  const size_t plane = static_cast<size_t>(picture.height) * picture.width;
  Picture result{channels, picture.height, picture.width, {}};
  result.values.resize(plane * static_cast<size_t>(channels));
  for (size_t i = 0; i < plane; ++i) {
    const auto& from = picture.values;
    if (channels == 1) {
      result.values[i] = 0.114f * from[i] + 0.587f * from[plane + i] + 0.299f * from[2 * plane + i];
    } else {
      for (int c = 0; c < channels; ++c)
        result.values[static_cast<size_t>(c) * plane + i] = from[i];
    }
  }
  return result;
}
