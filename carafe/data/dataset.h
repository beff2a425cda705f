// What a data layer reads: numbered records of decoded arrays. One file per kind of storage
// implements it; a new kind needs nothing else (docs/data.md).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carafe/core/shape.h"

namespace carafe {

// One array of a record. Exactly one of the spans is used, unless the array is empty.
struct ArrayView {
  Shape shape;  // of an image: (channels, height, width)
  std::span<const uint8_t> bytes = {};
  std::span<const float> floats = {};
  std::span<const double> doubles = {};
  bool interleaved = false;  // an image whose bytes lie as (height, width, channels)

  std::string SizeText() const;  // "3x32x32"
};

// A part of an image; the corners belong to it and may lie outside of the image.
struct Box {
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

// One record: an image and its label, or one array per top of the layer.
struct Sample {
  std::vector<ArrayView> arrays;
  Box box;                // what the record is about, in window files
  std::string_view file;  // that the image was read from, for errors; may be empty
};

// Reads the records of one data set. Used by one thread; holds its buffers and caches.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  // The views are valid until the next call. Throws DataError, after which other records may still
  // be read.
  virtual const Sample& Read(int64_t index) = 0;
};

// Constant after construction, so any number of threads may use it, each with its own reader.
// Opening one must be cheap: what takes long (counting, indexing) happens when it is first needed.
class DataSet {
 public:
  virtual ~DataSet() = default;
  virtual const std::string& name() const = 0;  // the path, as it was given
  virtual int64_t size() const = 0;             // number of records, at least 1
  // A text that differs between two copies that differ, as far as can be seen without reading all
  // records. Ranks compare it before they train; it is shown to users.
  virtual std::string Fingerprint() const = 0;
  virtual std::string Describe(int64_t index) const = 0;  // in errors: (key "..") or the like
  // The shapes of a record's arrays, from headers or settings if these tell, else by reading
  // record 0. Images of later records may have other sizes.
  virtual Shapes SampleShapes() const;
  // The record at `position` (0 <= position < size()) of an epoch that is shuffled by `key`: a
  // permutation. Storage that is read in blocks keeps the records of a block together.
  virtual int64_t ShuffledRecord(uint64_t key, int64_t epoch, int64_t position) const;
  virtual std::unique_ptr<RecordReader> NewReader() const = 0;  // must not outlive the data set
};

// The arrays of an image and its label, as a reader keeps them.
class LabelledImage {
 public:
  LabelledImage();
  LabelledImage(const LabelledImage&) = delete;  // the label's view points into it
  LabelledImage& operator=(const LabelledImage&) = delete;
  ArrayView& image() { return sample_.arrays[0]; }
  void set_label(int label) { label_ = label; }
  Sample& sample() { return sample_; }

 private:
  double label_ = 0;  // holds every int exactly
  Sample sample_;
};

}  // namespace carafe
