// A transport that hands everything on to another: tests change what they are about. Short messages
// and loans are not handed on: what is sent comes as header and payload.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "carafe/comm/transport.h"

namespace carafe {

class WrappedTransport : public Transport {
 public:
  explicit WrappedTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const std::string& host() const override { return inner_->host(); }
  bool any_thread() const override { return inner_->any_thread(); }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    return inner_->Send(to, tag, data, bytes);
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return inner_->Receive(from, tag, data, bytes);
  }
  bool Done(Request request) override { return inner_->Done(request); }
  void Finish() override { inner_->Finish(); }
  void Abort(const std::string& message) noexcept override { inner_->Abort(message); }

 protected:
  const std::unique_ptr<Transport> inner_;
};

}  // namespace carafe
