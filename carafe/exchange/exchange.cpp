#include "carafe/exchange/exchange.h"

#include "carafe/exchange/synchronous.h"

namespace carafe {

template <typename T>
std::unique_ptr<Exchange<T>> MakeExchange(const std::string& name, const ExchangeSetup<T>& setup) {
  return MakeSynchronous<T>(FindScheme(name), setup);
}

template std::unique_ptr<Exchange<float>> MakeExchange(const std::string&,
                                                       const ExchangeSetup<float>&);
template std::unique_ptr<Exchange<double>> MakeExchange(const std::string&,
                                                        const ExchangeSetup<double>&);

}  // namespace carafe
