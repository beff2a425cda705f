#include "hdf5_file.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "carafe/base/file.h"

namespace carafe::golden {
namespace {

// Message types of an object header.
enum { kDataspace = 0x01, kDatatype = 0x03, kLayout = 0x08, kContinuation = 0x10, kGroup = 0x11 };

constexpr uint64_t kRootHeader = 64;  // in superblock version 0: the root's header address

template <typename T>
void Append(const char* raw, size_t count, std::vector<double>* values) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, raw + i * sizeof(T), sizeof(T));
    values->push_back(static_cast<double>(value));
  }
}

}  // namespace

Hdf5File::Hdf5File(const std::string& path) : path_(path), bytes_(ReadFile(path)) {
  CheckSignature(0, "\x89HDF\r\n\x1a\n");
  if (At<uint8_t>(8) != 0 || At<uint8_t>(13) != 8 || At<uint8_t>(14) != 8) {
    throw std::runtime_error(path + ": an HDF5 file of a newer form");
  }
}

void Hdf5File::CheckRange(uint64_t offset, uint64_t size) const {
  if (offset > bytes_.size() || size > bytes_.size() - offset) {
    throw std::runtime_error(path_ + ": the HDF5 file is cut off");
  }
}

template <typename T>
T Hdf5File::At(uint64_t offset) const {
  CheckRange(offset, sizeof(T));
  T value;
  std::memcpy(&value, bytes_.data() + offset, sizeof(T));
  return value;
}

void Hdf5File::CheckSignature(uint64_t offset, const char* signature) const {
  const size_t size = std::strlen(signature);
  CheckRange(offset, size);
  if (bytes_.compare(offset, size, signature) != 0) {
    throw std::runtime_error(fmt::format("{}: no HDF5 structure at {}", path_, offset));
  }
}

void Hdf5File::ReadMessage(int type, uint64_t at, Object* object) const {
  if (type == kGroup) {
    object->tree = At<uint64_t>(at);
    object->heap = At<uint64_t>(at + 8);
  } else if (type == kDataspace) {
    const int rank = At<uint8_t>(at + 1);
    const uint64_t dims = at + (At<uint8_t>(at) == 1 ? 8 : 4);
    for (int i = 0; i < rank; ++i) {
      object->shape.push_back(At<int64_t>(dims + 8 * static_cast<uint64_t>(i)));
    }
  } else if (type == kDatatype) {
    object->type_class = At<uint8_t>(at) & 15;
    object->is_signed = (At<uint8_t>(at + 1) & 8) != 0;
    object->element_bytes = At<uint32_t>(at + 4);
  } else if (type == kLayout) {
    if (At<uint8_t>(at) != 3 || At<uint8_t>(at + 1) != 1) {
      throw std::runtime_error(path_ + ": a dataset is not stored in one piece");
    }
    object->data = At<uint64_t>(at + 2);
    object->data_bytes = At<uint64_t>(at + 10);
  }
}

void Hdf5File::ReadMessages(uint64_t at, uint64_t size, int* left, Object* object) const {
  const uint64_t end = at + size;
  while (*left > 0 && at + 8 <= end) {
    --*left;
    const int type = At<uint16_t>(at);
    const uint64_t body = at + 8;
    if (type == kContinuation) {
      ReadMessages(At<uint64_t>(body), At<uint64_t>(body + 8), left, object);
    } else {
      ReadMessage(type, body, object);
    }
    at = body + At<uint16_t>(at + 2);
  }
}

Hdf5File::Object Hdf5File::ReadObject(uint64_t header) const {
  if (At<uint8_t>(header) != 1) {
    throw std::runtime_error(path_ + ": an HDF5 object of a newer form");
  }
  Object object;
  int messages = At<uint16_t>(header + 2);
  ReadMessages(header + 16, At<uint32_t>(header + 8), &messages, &object);
  return object;
}

uint64_t Hdf5File::FindInTree(uint64_t tree, uint64_t names, const std::string& name) const {
  CheckSignature(tree, "TREE");
  const int level = At<uint8_t>(tree + 5);
  const int children = At<uint16_t>(tree + 6);
  for (int c = 0; c < children; ++c) {
    const uint64_t child = At<uint64_t>(tree + 32 + 16 * static_cast<uint64_t>(c));
    if (level > 0) {
      if (const uint64_t found = FindInTree(child, names, name)) return found;
      continue;
    }
    CheckSignature(child, "SNOD");
    const int entries = At<uint16_t>(child + 6);
    for (int e = 0; e < entries; ++e) {
      const uint64_t entry = child + 8 + 40 * static_cast<uint64_t>(e);
      const uint64_t text = names + At<uint64_t>(entry);
      CheckRange(text, name.size() + 1);
      if (name == bytes_.c_str() + text) return At<uint64_t>(entry + 8);
    }
  }
  return 0;
}

Array Hdf5File::Read(const std::string& dataset) const {
  Object object = ReadObject(At<uint64_t>(kRootHeader));
  for (size_t begin = 0; begin <= dataset.size();) {
    const size_t slash = std::min(dataset.find('/', begin), dataset.size());
    const std::string name = dataset.substr(begin, slash - begin);
    begin = slash + 1;
    uint64_t header = 0;
    if (object.heap != 0) {
      CheckSignature(object.heap, "HEAP");
      header = FindInTree(object.tree, At<uint64_t>(object.heap + 24), name);
    }
    if (header == 0) throw std::runtime_error(fmt::format("{}: no dataset {}", path_, dataset));
    object = ReadObject(header);
  }
  size_t count = 1;
  for (const int64_t dim : object.shape) count *= static_cast<size_t>(dim);
  CheckRange(object.data, count * object.element_bytes);
  const char* raw = bytes_.data() + object.data;
  Array array;
  array.shape = object.shape;
  const auto is = [&](int type_class, uint32_t bytes) {
    return object.type_class == type_class && object.element_bytes == bytes;
  };
  if (is(1, 4)) {
    Append<float>(raw, count, &array.values);
  } else if (is(1, 8)) {
    Append<double>(raw, count, &array.values);
  } else if (is(0, 4) && object.is_signed) {
    Append<int32_t>(raw, count, &array.values);
  } else if (is(0, 8) && object.is_signed) {
    Append<int64_t>(raw, count, &array.values);
  } else if (is(0, 1) && !object.is_signed) {
    Append<uint8_t>(raw, count, &array.values);
  } else {
    throw std::runtime_error(fmt::format("{}: {} is of an unknown type", path_, dataset));
  }
  return array;
}

}  // namespace carafe::golden
