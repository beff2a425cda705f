// One worker: the gradient is the sum. No thread; the update runs when the value is next asked for.
#pragma once

#include <memory>

#include "carafe/exchange/exchange.h"

namespace carafe {

template <typename T>
std::unique_ptr<Exchange<T>> MakeSingle(const ExchangeSetup<T>& setup);

}  // namespace carafe
