// In which order the updates of a rank leave when the bandwidth is managed (--send_order).
#pragma once

#include <cstdint>

#include "carafe/exchange/server_settings.h"

namespace carafe {

// The priority of one message; lower leaves first, and equal ones in the order in which they were
// ready. `random` is a number of this message's own.
template <typename T>
int64_t SendPriority(SendOrder order, int64_t clock, const T* update, const T* value, int64_t count,
                     uint64_t random);
// Of a message of values: before all updates, or all of its clock.
int64_t ValuePriority(SendOrder order, int64_t clock);

}  // namespace carafe
