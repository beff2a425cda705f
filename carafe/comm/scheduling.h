// For a thread that works little and often beside threads that compute for long.
#pragma once

namespace carafe {

// Asks the kernel for short time slices for the calling thread. Since Linux 6.12 a thread with
// short slices may preempt those with longer ones (3 ms by default) when it wakes up; its share of
// the processor stays the same. Earlier kernels ignore it.
void RequestShortTimeSlices();

}  // namespace carafe
