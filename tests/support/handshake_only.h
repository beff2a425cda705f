// Carries handshakes only, and throws for all other messages: shows which messages of a transport
// go through its inner one.
#pragma once

#include <stdexcept>

#include "carafe/comm/tags.h"
#include "tests/support/wrapped_transport.h"

namespace carafe {

class HandshakeOnly final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    if (tag != kHandshakeTag)
      throw std::runtime_error("a message goes through the inner transport");
    return inner().Send(to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    if (tag != kHandshakeTag)
      throw std::runtime_error("a message goes through the inner transport");
    return inner().Receive(from, tag, data, bytes);
  }
};

}  // namespace carafe
