// The tensors beside a TrainingState: histories of the update rule, later residuals of codecs. They
// are written and read one at a time. Each has a name and may be stored whole or as shards, in one
// file or in several.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "carafe/core/shape.h"

namespace carafe {

// Elements first .. first + count - 1 of the tensor `name`, counted in its flattened form.
struct TensorShard {
  std::string name;
  Shape shape;  // of the whole tensor
  int64_t first = 0;
  int64_t count = 0;

  bool whole() const { return first == 0 && count == shape.Count(); }
};

// Slot s of parameter p is history number s * params + p, the order of Caffe's .solverstate.
std::string HistoryName(size_t index);
// The number of a history tensor, or -1 for a tensor of another kind.
int64_t HistoryIndex(const std::string& name);

// Takes the tensors of one file. Used by one thread.
template <typename T>
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  // Announces a shard. Its values follow in any number of pieces, before the next Begin. Whole
  // histories must come in the order of their numbers.
  virtual void Begin(const TensorShard& shard) = 0;
  virtual void Write(std::span<const T> values) = 0;

  void WriteWhole(const std::string& name, const Shape& shape, std::span<const T> values) {
    Begin({.name = name, .shape = shape, .first = 0, .count = shape.Count()});
    Write(values);
  }
};

// The tensors of one file. Used by one thread at a time.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  virtual const std::string& path() const = 0;
  virtual const std::vector<TensorShard>& shards() const = 0;
  // The values of shards()[index], converted to double. Throws DataError.
  virtual std::vector<double> Read(size_t index) const = 0;
};

// Whole tensors, put together from the shards of one or several files. Used by one thread.
class TensorSet {
 public:
  void Add(std::unique_ptr<TensorSource> source);
  size_t histories() const;  // how many different history tensors the files have
  // The shape of a tensor. Throws DataError if no file has it, if its shards overlap or leave a
  // gap, or if they disagree on its shape.
  Shape ShapeOf(const std::string& name) const;
  std::vector<double> Read(const std::string& name) const;

 private:
  struct Part {
    const TensorSource* source;
    size_t index;
    const TensorShard& shard() const { return source->shards()[index]; }
  };
  std::vector<Part> PartsOf(const std::string& name) const;  // in order, checked
  std::vector<std::unique_ptr<TensorSource>> sources_;
};

}  // namespace carafe
