// A thread that works little and often beside threads that compute for long.
#pragma once

namespace carafe {

// Asks for short turns on the processor for the calling thread. Since Linux 6.12 who has short
// turns may interrupt those who have longer ones (3 ms by default) when it wakes up; its share of
// the processor stays the same. Earlier kernels take no notice.
void AskForShortTurns();

}  // namespace carafe
