#include "array.h"

#include <fmt/format.h>
#include <zlib.h>

#include <charconv>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "carafe/base/file.h"

namespace carafe::golden {
namespace {

[[noreturn]] void Fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", path, what));
}

// Little-endian numbers at fixed places, with bounds.
class Bytes {
 public:
  Bytes(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  template <typename T>
  T At(size_t offset) const {
    T value;
    std::memcpy(&value, Part(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view Part(size_t offset, size_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) Fail(path_, "the file is cut off");
    return bytes_.substr(offset, size);
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& path_;
};

template <typename T>
void Append(std::string_view raw, std::vector<double>* values) {
  for (size_t i = 0; i + sizeof(T) <= raw.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, raw.data() + i, sizeof(T));
    values->push_back(static_cast<double>(value));
  }
}

// Text of fixed width: bytes ('S') or 4-byte code points ('U', ASCII here), padded with zeros.
std::vector<std::string> Texts(std::string_view raw, size_t width, bool wide, size_t count) {
  std::vector<std::string> texts(count);
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < width; ++c) {
      const char letter = raw[wide ? (i * width + c) * 4 : i * width + c];
      if (letter != '\0') texts[i] += letter;
    }
  }
  return texts;
}

// What stands after 'key': in the header, a Python dictionary such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
std::string_view After(std::string_view header, std::string_view key, const std::string& path) {
  const size_t found = header.find(key);
  if (found == std::string_view::npos) Fail(path, "an array header lacks its fields");
  return header.substr(found + key.size());
}

std::vector<int64_t> ShapeIn(std::string_view header, const std::string& path) {
  std::string_view list = After(header, "'shape': (", path);
  list = list.substr(0, list.find(')'));
  std::vector<int64_t> shape;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error == std::errc()) shape.push_back(dim);
    at = error == std::errc() ? next : at + 1;
  }
  return shape;
}

Array ParseNpy(std::string_view content, const std::string& path) {
  const Bytes bytes(content, path);
  if (bytes.Part(0, 6) != std::string_view("\x93NUMPY", 6)) Fail(path, "an entry is no .npy");
  const bool long_header = bytes.At<uint8_t>(6) > 1;
  const size_t start = long_header ? 12 : 10;
  const size_t length = long_header ? bytes.At<uint32_t>(8) : bytes.At<uint16_t>(8);
  const std::string_view header = bytes.Part(start, length);
  if (!After(header, "'fortran_order': ", path).starts_with("False")) {
    Fail(path, "an array is in Fortran order");
  }
  std::string_view type = After(header, "'descr': '", path);
  type = type.substr(0, type.find('\''));
  Array array;
  array.shape = ShapeIn(header, path);
  size_t count = 1;
  for (const int64_t dim : array.shape) count *= static_cast<size_t>(dim);
  size_t width = 0;
  std::from_chars(type.data() + 2, type.data() + type.size(), width);
  const char kind = type[1];
  const std::string_view raw = bytes.Part(start + length, count * width * (kind == 'U' ? 4 : 1));
  const std::string_view plain = type.substr(1);
  if (kind == 'U' || kind == 'S') {
    array.is_text = true;
    array.texts = Texts(raw, width, kind == 'U', count);
  } else if (plain == "f4") {
    Append<float>(raw, &array.values);
  } else if (plain == "f8") {
    Append<double>(raw, &array.values);
  } else if (plain == "i8") {
    Append<int64_t>(raw, &array.values);
  } else if (plain == "i4") {
    Append<int32_t>(raw, &array.values);
  } else if (plain == "u1" || plain == "b1") {
    Append<uint8_t>(raw, &array.values);
  } else {
    Fail(path, fmt::format("an array has the unknown type {}", type));
  }
  return array;
}

}  // namespace

Arrays Arrays::Read(const std::string& path) {
  const std::string content = ReadFile(path);
  const Bytes bytes(content, path);
  const size_t end = content.rfind("PK\5\6");
  if (end == std::string::npos) Fail(path, "this is no zip file");
  const size_t entries = bytes.At<uint16_t>(end + 10);
  size_t at = bytes.At<uint32_t>(end + 16);
  Arrays result;
  for (size_t i = 0; i < entries; ++i) {
    if (bytes.At<uint32_t>(at) != 0x02014b50) Fail(path, "the zip directory is broken");
    if (bytes.At<uint16_t>(at + 10) != 0) Fail(path, "an entry is compressed");
    const uint32_t crc = bytes.At<uint32_t>(at + 16);
    const size_t size = bytes.At<uint32_t>(at + 24);
    const size_t name_size = bytes.At<uint16_t>(at + 28);
    const size_t local = bytes.At<uint32_t>(at + 42);
    std::string name(bytes.Part(at + 46, name_size));
    at += 46 + name_size + bytes.At<uint16_t>(at + 30) + bytes.At<uint16_t>(at + 32);
    const size_t data =
        local + 30 + bytes.At<uint16_t>(local + 26) + bytes.At<uint16_t>(local + 28);
    const std::string_view entry = bytes.Part(data, size);
    if (crc32(0, reinterpret_cast<const Bytef*>(entry.data()), static_cast<uInt>(size)) != crc) {
      Fail(path, fmt::format("the checksum of {} is wrong", name));
    }
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    result.arrays_.emplace_back(name, ParseNpy(entry, path));
  }
  return result;
}

const Array* Arrays::Find(const std::string& name) const {
  for (const auto& [key, array] : arrays_) {
    if (key == name) return &array;
  }
  return nullptr;
}

const Array& Arrays::At(const std::string& name) const {
  const Array* array = Find(name);
  if (array == nullptr) throw std::runtime_error(fmt::format("the case has no array {}", name));
  return *array;
}

}  // namespace carafe::golden
