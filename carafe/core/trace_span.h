// Marks what runs now for the trace, if anybody looks.
#pragma once

#include <string_view>

#include "carafe/core/run_context.h"

namespace carafe {

class TraceSpan {
 public:
  TraceSpan(Trace* trace, std::string_view category, std::string_view name) : trace_(trace) {
    if (trace_ != nullptr) trace_->Begin(category, name);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->End();
  }

 private:
  Trace* const trace_;
};

}  // namespace carafe
