// The exchange of all schemes in which every step waits for everyone's gradients.
#pragma once

#include <memory>

#include "carafe/exchange/exchange.h"

namespace carafe {

template <typename T>
std::unique_ptr<Exchange<T>> MakeSynchronous(const SchemeKind& kind, const ExchangeSetup<T>& setup);

}  // namespace carafe
