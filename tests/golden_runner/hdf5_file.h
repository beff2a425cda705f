// Reads the plain HDF5 files of a reference set: old-style groups, datasets in one piece or in
// chunks without compression. Just enough for the runner, which must not need the library that it
// may be checking.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "array.h"

namespace carafe::golden {

class Hdf5File {
 public:
  // Throws std::runtime_error for a file of another form.
  explicit Hdf5File(const std::string& path);

  Array Read(const std::string& dataset) const;  // "data" or "group/data"
  std::string ReadText(const std::string& dataset) const;
  std::vector<std::string> List(const std::string& group) const;  // what it holds, by name

 private:
  // Where the parts of an object lie: a group has a tree and a heap, a dataset the others.
  struct Object {
    uint64_t tree = 0, heap = 0;
    std::vector<int64_t> shape;
    int type_class = -1;
    bool is_signed = false;
    uint32_t element_bytes = 0;
    uint64_t data = 0, data_bytes = 0;
    uint64_t chunk_tree = 0;  // if not in one piece
    std::vector<int64_t> chunk;
  };
  template <typename T>
  T At(uint64_t offset) const;
  void CheckRange(uint64_t offset, uint64_t size) const;
  void CheckSignature(uint64_t offset, const char* signature) const;
  Object ReadObject(uint64_t header) const;
  void ReadMessages(uint64_t at, uint64_t size, int* left, Object* object) const;
  void ReadMessage(int type, uint64_t at, Object* object) const;
  Object Find(const std::string& path) const;
  // Adds the members of a group: name and header address.
  void ListTree(uint64_t tree, uint64_t names, std::map<std::string, uint64_t>* members) const;
  std::map<std::string, uint64_t> MembersOf(const Object& group) const;
  std::string Raw(const Object& dataset) const;  // its elements, in C order
  void ReadChunks(uint64_t tree, const Object& dataset, std::string* raw) const;

  const std::string path_;
  const std::string bytes_;
};

}  // namespace carafe::golden
