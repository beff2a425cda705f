// A transport that works through another one. It forwards everything; a derived class overrides
// what it changes. What it gives as capabilities must fit what it overrides: requests of the inner
// transport are valid here only if the derived class passes them on unchanged.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "carafe/comm/transport.h"

namespace carafe {

class TransportDecorator : public Transport {
 public:
  LinkTraits link(int peer) const override { return inner_.link(peer); }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    return inner_.Send(to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return inner_.Receive(from, tag, data, bytes);
  }
  bool Done(Request request) override { return inner_.Done(request); }
  bool TakeCompletions() override { return inner_.TakeCompletions(); }
  void Finish() override { inner_.Finish(); }
  void Abort(const std::string& message) noexcept override { inner_.Abort(message); }

 protected:
  // `inner` outlives the decorator.
  TransportDecorator(Transport& inner, TransportCapabilities capabilities)
      : Transport(inner.identity(), std::move(capabilities)), inner_(inner) {}
  // The decorator owns `inner`. A reference, so that the other arguments can still use it.
  TransportDecorator(std::unique_ptr<Transport>&& inner, TransportCapabilities capabilities)
      : TransportDecorator(std::move(inner), inner->identity(), std::move(capabilities)) {}
  TransportDecorator(std::unique_ptr<Transport>&& inner, RankIdentity identity,
                     TransportCapabilities capabilities)
      : Transport(std::move(identity), std::move(capabilities)),
        owned_(std::move(inner)),
        inner_(*owned_) {}

  Transport& inner() { return inner_; }
  const Transport& inner() const { return inner_; }

 private:
  const std::unique_ptr<Transport> owned_;  // null if another object owns it
  Transport& inner_;
};

}  // namespace carafe
