#include "carafe/comm/scheduling.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace carafe {
namespace {

constexpr uint64_t kTimeSlice = 100000;  // nanoseconds: the kernel's minimum

// The kernel's sched_attr, first version; glibc has no name for it before 2.41.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;  // SCHED_OTHER, the default
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  // for SCHED_OTHER: the time slice
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

}  // namespace

void RequestShortTimeSlices() {
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return;
  if (attributes.policy != 0) return;  // the user has chosen another policy
  attributes.runtime = kTimeSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);  // only a hint: nothing depends on its success
}

}  // namespace carafe
