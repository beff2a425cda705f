// Text files of messages (prototxt) with the place of every field, so that an error found much
// later can still point at the line and column where its cause was written.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <string_view>

#include "carafe/base/error.h"

namespace carafe {

// The place of a message in a text file, or nowhere (made in memory, read from binary). Cheap to
// copy; keeps the positions of the whole file alive.
class Place {
 public:
  Place() = default;
  // The nested message `field` number `index`; nowhere if the file does not hold it.
  Place Child(const std::string& field, int index = -1) const;
  // The position of the deepest part of a dotted path that the file has, e.g.
  // "inner_product_param.num_output", "param[1].lr_mult". An empty path is the message itself.
  Location Find(std::string_view path) const;
  // A place for what was made from `path`: all that is asked of it is found there.
  Place Only(std::string_view path) const;

 private:
  friend Place ParseText(const std::string& text, const std::string& file,
                         google::protobuf::Message* message);
  using Tree = google::protobuf::TextFormat::ParseInfoTree;
  struct Document {
    std::string file;
    Tree tree;
  };
  std::shared_ptr<const Document> document_;
  const Tree* tree_ = nullptr;
  const google::protobuf::Descriptor* type_ = nullptr;
  Location start_;
};

// Both throw ConfigError at file:line:column: with the nearest valid names for a misspelt field or
// enum value.
Place ParseText(const std::string& text, const std::string& file,
                google::protobuf::Message* message);
Place ParseTextFile(const std::string& path, google::protobuf::Message* message);
// The message as protobuf's text format writes it: one field a line, numbers as short as they can
// be.
std::string FormatText(const google::protobuf::Message& message);

}  // namespace carafe
