// Takes the fields of fork_messages.proto out of a text file, and puts them into the message that
// is read from the rest.
#pragma once

#include <google/protobuf/message.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace carafe {

class ForkText {
 public:
  // Puts blanks over every `field` of messages of type `type` in the text of a `root`, and keeps
  // it. False: the schema of forks does not have it, or it is not there.
  bool Take(const google::protobuf::Descriptor& root, const google::protobuf::Descriptor& type,
            std::string_view field, std::string* text);
  // The same for a value that only a fork's enumeration has.
  bool TakeValue(const google::protobuf::Descriptor& root, std::string_view field,
                 std::string_view value, std::string* text);

  // Adds what was taken to `root`. `parse` reads a text, padded so that positions are those of the
  // file, and throws ConfigError.
  using Parse = std::function<void(const std::string& text, google::protobuf::Message* fork)>;
  void AddTo(google::protobuf::Message* root, const Parse& parse) const;

 private:
  struct Part {
    std::vector<std::pair<std::string, int>> path;  // of the message, from the root
    const google::protobuf::Descriptor* fork;       // what to parse the text as
    std::string text;
  };
  template <typename Match>
  bool TakeAll(const google::protobuf::Descriptor& root, const Match& match, std::string* text);

  std::vector<Part> parts_;
};

}  // namespace carafe
