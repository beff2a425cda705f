// For the files that define schemes: enters one in the table before main().
#pragma once

#include <algorithm>

#include "carafe/exchange/scheme.h"

namespace carafe {

struct RegisterScheme {
  explicit RegisterScheme(const SchemeKind& kind) {
    SchemeRegistry::Instance().Add(kind.name, kind);
  }
};

// Chunks of one message each.
template <typename F>
std::vector<Program> CutByMessage(const SchemeSettings& settings, int64_t count, int64_t bytes,
                                  const F& program) {
  const int64_t width = count > 0 ? bytes / count : 1;
  return Cut(count, std::max<int64_t>(static_cast<int64_t>(settings.message_bytes) / width, 1),
             program);
}

}  // namespace carafe
