// Annotations for clang's thread-safety analysis (-Wthread-safety): which mutex guards a member,
// and which one a function needs. Other compilers ignore them. scripts/thread_safety.sh checks
// them.
#pragma once

#if defined(__clang__)
#define CARAFE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define CARAFE_THREAD_ANNOTATION(x)
#endif

// Members: only with the mutex held.
#define CARAFE_GUARDED_BY(mutex) CARAFE_THREAD_ANNOTATION(guarded_by(mutex))
// Functions: the caller holds the mutexes, or must not hold them.
#define CARAFE_REQUIRES(...) CARAFE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define CARAFE_EXCLUDES(...) CARAFE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// Mutexes that are locked together: this one first.
#define CARAFE_ACQUIRED_BEFORE(...) CARAFE_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))

// For the implementation of mutexes and locks.
#define CARAFE_CAPABILITY(name) CARAFE_THREAD_ANNOTATION(capability(name))
#define CARAFE_SCOPED_CAPABILITY CARAFE_THREAD_ANNOTATION(scoped_lockable)
#define CARAFE_ACQUIRE(...) CARAFE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define CARAFE_TRY_ACQUIRE(...) CARAFE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define CARAFE_RELEASE(...) CARAFE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define CARAFE_ASSERT_HELD(mutex) CARAFE_THREAD_ANNOTATION(assert_capability(mutex))
