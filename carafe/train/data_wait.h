// How long a net has waited for its data.
#pragma once

#include "carafe/layers/data_layer.h"
#include "carafe/net/net.h"

namespace carafe {

// The sum over all data layers since the net was made. For the thread that runs the net.
template <typename T>
double DataWaitSeconds(const Net<T>& net) {
  double seconds = 0;
  for (const auto& layer : net.layers()) {
    if (const DataLayer* data = AsDataLayer(*layer)) seconds += data->data_wait_seconds();
  }
  return seconds;
}

}  // namespace carafe
