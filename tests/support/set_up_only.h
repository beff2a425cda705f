// Carries the set-up only: tests of transports that find their own way see by its error what goes
// another one.
#pragma once

#include <stdexcept>

#include "carafe/comm/tags.h"
#include "tests/support/wrapped_transport.h"

namespace carafe {

class SetUpOnly final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    if (tag != kSetUpTag) throw std::runtime_error("a message goes through the inner transport");
    return inner_->Send(to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    if (tag != kSetUpTag) throw std::runtime_error("a message goes through the inner transport");
    return inner_->Receive(from, tag, data, bytes);
  }
};

}  // namespace carafe
