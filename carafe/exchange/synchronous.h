// The strategy of all synchronous schemes (scheme.h): every step waits for the gradients of all
// ranks, and all replicas have the same values after it.
#pragma once

#include <memory>

#include "carafe/exchange/exchange.h"

namespace carafe {

template <typename T>
std::unique_ptr<Exchange<T>> MakeSynchronous(const Scheme& scheme, const ExchangeSetup<T>& setup);

}  // namespace carafe
