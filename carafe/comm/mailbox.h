// Matches the messages of one sender with the receives of one receiver: by tag, the oldest first.
// Messages that have no receive yet and receives that have no message yet wait here.
// Single-threaded.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "carafe/comm/transport.h"

namespace carafe {

struct PendingReceive {
  TransportRequest request = 0;
  int tag = 0;
  char* data = nullptr;
  size_t bytes = 0;
  size_t* received = nullptr;  // null: the message has exactly `bytes`. Else it has at most as
                               // many, and its size is stored here
  bool Accepts(size_t size) const { return received ? size <= bytes : size == bytes; }
};

// The error of a receive that does not accept its message.
inline std::string SizeMismatch(int from, int to, int tag, size_t bytes, size_t expected) {
  return fmt::format("a message of rank {} to rank {} (tag {}) has {} bytes, not {}", from, to, tag,
                     bytes, expected);
}

// Both types have a member `tag`. Pointers are valid until the mailbox is changed.
template <typename Message, typename Receive = PendingReceive>
class Mailbox {
 public:
  void AddReceive(Receive receive) { receives_.push_back(std::move(receive)); }
  Receive* FindReceive(int tag) { return Find(receives_, tag); }
  std::optional<Receive> TakeReceive(int tag) { return Take(receives_, tag); }
  void ClearReceives() { receives_.clear(); }

  void AddMessage(Message message) { messages_.push_back(std::move(message)); }
  Message* FindMessage(int tag) { return Find(messages_, tag); }
  std::optional<Message> TakeMessage(int tag) { return Take(messages_, tag); }
  template <typename Predicate>
  void EraseMessagesIf(const Predicate& predicate) {
    std::erase_if(messages_, predicate);
  }

 private:
  template <typename Element>
  static Element* Find(std::vector<Element>& elements, int tag) {
    for (Element& element : elements)
      if (element.tag == tag) return &element;
    return nullptr;
  }
  template <typename Element>
  static std::optional<Element> Take(std::vector<Element>& elements, int tag) {
    Element* found = Find(elements, tag);
    if (!found) return {};
    std::optional<Element> taken = std::move(*found);
    elements.erase(elements.begin() + (found - elements.data()));
    return taken;
  }

  std::vector<Receive> receives_;  // oldest first, as the messages
  std::vector<Message> messages_;
};

}  // namespace carafe
