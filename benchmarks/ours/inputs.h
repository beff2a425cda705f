// What the nets of the races compute on: numbers drawn once, the same in every run.
#pragma once

#include "carafe/net/net.h"

namespace carafe {

// Fills the inputs of a net. Labels are classes; `cont` says that every sequence starts at its
// first step; all else is normal with mean 0 and deviation 1.
template <typename T>
void FillInputs(Stream& stream, Net<T>& net, int classes);

}  // namespace carafe
