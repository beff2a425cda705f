// A list of picture files made into a database, as Caffe's convert_imageset does.
#pragma once

#include <cstdint>
#include <string>

namespace carafe {

struct ImagesetOptions {
  std::string root;      // put before each path as it is; a folder without its slash gets one
  std::string list;      // lines "path label"
  std::string database;  // the folder to write
  std::string backend = "lmdb";
  bool gray = false;
  bool shuffle = false;
  uint64_t seed = 1;                        // of shuffle
  int resize_height = 0, resize_width = 0;  // both or none
  bool check_size = false;                  // refuse pictures of different sizes
  bool encoded = false;     // keep the files as they are where nothing about them has to change
  std::string encode_type;  // jpg, jpeg or png; empty: by the name of each file
};

struct ImagesetResult {
  int64_t written = 0, skipped = 0;  // skipped: pictures that cannot be read
};

// Keys are %08d_<path as in the list>. A picture that cannot be read is named in the log and left
// out; none at all is a DataError.
ImagesetResult ConvertImageset(const ImagesetOptions& options);

}  // namespace carafe
