#include "hdf5_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "carafe/base/file.h"

namespace carafe::golden {
namespace {

// Message types of an object header.
enum {
  kDataspace = 0x01,
  kDatatype = 0x03,
  kLayout = 0x08,
  kFilters = 0x0b,
  kContinuation = 0x10,
  kGroup = 0x11
};
enum { kContiguous = 1, kChunked = 2 };        // layouts
constexpr uint64_t kUndefined = ~uint64_t{0};  // an address that was never given

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
    const int kind = At<uint8_t>(at + 1);
    if (At<uint8_t>(at) != 3 || (kind != kContiguous && kind != kChunked)) {
      throw std::runtime_error(path_ + ": a dataset is stored in an unknown way");
    }
    if (kind == kContiguous) {
      object->data = At<uint64_t>(at + 2);
      object->data_bytes = At<uint64_t>(at + 10);
    } else {
      object->chunk_tree = At<uint64_t>(at + 3);
      for (uint64_t axis = 0; axis + 1 < At<uint8_t>(at + 2); ++axis) {
        object->chunk.push_back(At<uint32_t>(at + 11 + 4 * axis));
      }
    }
  } else if (type == kFilters) {
    throw std::runtime_error(path_ + ": a dataset is compressed");
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

void Hdf5File::ListTree(uint64_t tree, uint64_t names,
                        std::map<std::string, uint64_t>* members) const {
  CheckSignature(tree, "TREE");
  const int level = At<uint8_t>(tree + 5);
  const int children = At<uint16_t>(tree + 6);
  for (int c = 0; c < children; ++c) {
    const uint64_t child = At<uint64_t>(tree + 32 + 16 * static_cast<uint64_t>(c));
    if (level > 0) {
      ListTree(child, names, members);
      continue;
    }
    CheckSignature(child, "SNOD");
    const int entries = At<uint16_t>(child + 6);
    for (int e = 0; e < entries; ++e) {
      const uint64_t entry = child + 8 + 40 * static_cast<uint64_t>(e);
      const uint64_t text = names + At<uint64_t>(entry);
      CheckRange(text, 1);
      (*members)[bytes_.c_str() + text] = At<uint64_t>(entry + 8);
    }
  }
}

std::map<std::string, uint64_t> Hdf5File::MembersOf(const Object& group) const {
  std::map<std::string, uint64_t> members;
  if (group.heap == 0) return members;
  CheckSignature(group.heap, "HEAP");
  ListTree(group.tree, At<uint64_t>(group.heap + 24), &members);
  return members;
}

Hdf5File::Object Hdf5File::Find(const std::string& path) const {
  Object object = ReadObject(At<uint64_t>(kRootHeader));
  for (size_t begin = 0; begin <= path.size();) {
    const size_t slash = std::min(path.find('/', begin), path.size());
    const auto members = MembersOf(object);
    const auto found = members.find(path.substr(begin, slash - begin));
    if (found == members.end()) {
      throw std::runtime_error(fmt::format("{}: there is no {}", path_, path));
    }
    begin = slash + 1;
    object = ReadObject(found->second);
  }
  return object;
}

std::vector<std::string> Hdf5File::List(const std::string& group) const {
  std::vector<std::string> names;
  for (const auto& [name, header] : MembersOf(Find(group))) names.push_back(name);
  return names;
}

void Hdf5File::ReadChunks(uint64_t tree, const Object& dataset, std::string* raw) const {
  CheckSignature(tree, "TREE");
  const size_t axes = dataset.shape.size();
  const uint64_t key_size = 8 + 8 * (axes + 1);
  const bool leaf = At<uint8_t>(tree + 5) == 0;
  int64_t elements = 1;
  for (const int64_t size : dataset.chunk) elements *= size;
  for (int c = 0; c < At<uint16_t>(tree + 6); ++c) {
    const uint64_t key = tree + 24 + static_cast<uint64_t>(c) * (key_size + 8);
    const uint64_t child = At<uint64_t>(key + key_size);
    if (!leaf) {
      ReadChunks(child, dataset, raw);
      continue;
    }
    CheckRange(child, static_cast<uint64_t>(elements) * dataset.element_bytes);
    for (int64_t e = 0; e < elements; ++e) {  // chunks reach beyond the edge
      int64_t rest = e, to = 0, step = 1;
      bool inside = true;
      for (size_t axis = axes; axis-- > 0;) {
        const auto at = At<int64_t>(key + 8 + 8 * axis) + rest % dataset.chunk[axis];
        rest /= dataset.chunk[axis];
        inside = inside && at < dataset.shape[axis];
        to += at * step;
        step *= dataset.shape[axis];
      }
      if (!inside) continue;
      std::memcpy(raw->data() + to * dataset.element_bytes,
                  bytes_.data() + child + static_cast<uint64_t>(e) * dataset.element_bytes,
                  dataset.element_bytes);
    }
  }
}

std::string Hdf5File::Raw(const Object& dataset) const {
  size_t bytes = dataset.element_bytes;
  for (const int64_t dim : dataset.shape) bytes *= static_cast<size_t>(dim);
  if (dataset.chunk_tree != 0) {
    std::string raw(bytes, '\0');
    if (dataset.chunk_tree != kUndefined) ReadChunks(dataset.chunk_tree, dataset, &raw);
    return raw;
  }
  if (bytes == 0) return "";
  CheckRange(dataset.data, bytes);
  return bytes_.substr(dataset.data, bytes);
}

std::string Hdf5File::ReadText(const std::string& dataset) const {
  const Object object = Find(dataset);
  if (object.type_class != 3) {
    throw std::runtime_error(fmt::format("{}: {} is no text", path_, dataset));
  }
  return Raw(object).c_str();  // up to the zero byte
}

Array Hdf5File::Read(const std::string& dataset) const {
  const Object object = Find(dataset);
  const std::string bytes = Raw(object);
  const char* raw = bytes.data();
  const size_t count = bytes.size() / std::max<size_t>(1, object.element_bytes);
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
