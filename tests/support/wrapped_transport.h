// The base of test transports that change how messages travel. It has no short messages and no
// zero-copy views, so every message goes through Send and Receive.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "carafe/comm/transport_decorator.h"

namespace carafe {

class WrappedTransport : public TransportDecorator {
 public:
  explicit WrappedTransport(std::unique_ptr<Transport> inner)
      : TransportDecorator(std::move(inner), PlainCapabilities(*inner)) {}
  WrappedTransport(std::unique_ptr<Transport> inner, const std::string& host)
      : TransportDecorator(std::move(inner), {inner->rank(), inner->size(), host},
                           PlainCapabilities(*inner)) {}
  LinkTraits link(int /*peer*/) const override { return {}; }

 protected:
  static TransportCapabilities PlainCapabilities(const Transport& inner) {
    return {.backend = inner.capabilities().backend, .any_thread = inner.capabilities().any_thread};
  }
};

}  // namespace carafe
