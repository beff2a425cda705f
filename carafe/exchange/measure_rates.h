// Measures what the cost model needs (cost_model.h) on this cluster.
#pragma once

#include <span>

#include "carafe/exchange/cost_model.h"
#include "carafe/exchange/exchange.h"

namespace carafe {

constexpr double kMeasureSeconds = 0.2;  // about, for all products together

// A collective call: what sums and products cost on the slowest rank, for every rank the same.
// `layers` has the rows of one rank; products are timed at those of all ranks, on a part of the
// gradient, with the stream's threads. Rates of transfers include what a sum adds.
template <typename T>
ClusterRates MeasureRates(Group& group, Stream& stream, const SchemeSettings& scheme,
                          std::span<const LayerSize> layers);

// This rank's part of it: floating-point operations per second of the products, of T, at the rows
// of `ranks` ranks.
template <typename T>
double ProductRate(Stream& stream, std::span<const LayerSize> layers, int ranks);

}  // namespace carafe
