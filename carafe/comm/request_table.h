// The open requests of a transport: numbers them, reuses the numbers, and keeps what the transport
// must know about each. Single-threaded.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/comm/transport.h"

namespace carafe {

template <typename State>
class RequestTable {
 public:
  using Request = TransportRequest;

  // `mark` is a bit that all numbers of this table have: a decorator recognises its own requests by
  // it. Without one, the table owns all requests.
  explicit RequestTable(Request mark = 0) : mark_(mark) {}
  bool Owns(Request request) const { return (request & mark_) == mark_; }

  Request Begin(State state) {
    if (free_.empty()) {
      entries_.emplace_back();
      free_.push_back(entries_.size());
    }
    const Request number = free_.back();
    free_.pop_back();
    Entry& entry = entries_[number - 1];
    entry.state = std::move(state);
    entry.open = true;
    entry.done = false;
    entry.error.clear();
    return number | mark_;
  }
  // The reference is valid until the next Begin.
  State& operator[](Request request) { return Find(request).state; }
  const State& operator[](Request request) const { return Find(request).state; }

  void Complete(Request request) {
    Find(request).done = true;
    completed_ = true;
  }
  void Fail(Request request, std::string error) {
    Find(request).error = std::move(error);
    completed_ = true;
  }
  // Whether the request is done; throws CommError if it has failed.
  bool Done(Request request) const {
    const Entry& entry = Find(request);
    if (!entry.error.empty()) throw CommError(entry.error, "");
    return entry.done;
  }
  void Forget(Request request) {
    Find(request).open = false;
    free_.push_back(request & ~mark_);
  }
  // Done, and forgets the request if it is.
  bool TakeDone(Request request) {
    if (!Done(request)) return false;
    Forget(request);
    return true;
  }
  // Whether any request has completed or failed since the last call.
  bool TakeCompletions() { return std::exchange(completed_, false); }
  void Clear() {
    entries_.clear();
    free_.clear();
  }

 private:
  struct Entry {
    State state = {};
    bool open = false;
    bool done = false;
    std::string error;  // not empty: the request has failed
  };

  Entry& Find(Request request) { return entries_[IndexOf(request)]; }
  const Entry& Find(Request request) const { return entries_[IndexOf(request)]; }
  size_t IndexOf(Request request) const {
    const size_t index = (request & ~mark_) - 1;
    Ensure(index < entries_.size() && entries_[index].open,
           "a request was asked about after it was done");
    return index;
  }

  const Request mark_;
  std::vector<Entry> entries_;  // request number n is at n - 1
  std::vector<Request> free_;   // numbers that are not in use
  bool completed_ = false;
};

}  // namespace carafe
