#!/usr/bin/env bash
# The lock annotations hold, and the check finds a member that is read without its mutex.
set -u
cd "$(dirname "$0")/../.." || exit 1
if ! command -v clang++-19 >/dev/null; then
  echo 'SKIPPED the lock annotations of the library: there is no clang++-19'
  echo 'SKIPPED the check finds a wrong access: there is no clang++-19'
  echo '0 passed, 0 failed, 2 skipped'
  exit 0
fi
passed=0 failed=0
# result TITLE CODE
result() {
  if [ "$2" = 0 ]; then
    passed=$((passed + 1))
    echo "ok    $1"
  else
    failed=$((failed + 1))
    echo "FAIL  $1"
  fi
}

scripts/thread_safety.sh
result 'the lock annotations of the library' $?

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# program BODY: a class whose counter is guarded, with this function body
program() {
  cat >"$work/counter.cpp" <<CODE
#include "carafe/base/mutex.h"
struct Counter {
  int Read() { $1 }
  carafe::Mutex mutex;
  int value CARAFE_GUARDED_BY(mutex) = 0;
};
CODE
}
program 'carafe::MutexLock lock(mutex); return value;'
scripts/thread_safety.sh "$work/counter.cpp" >/dev/null
result 'an access with the mutex held' $?
program 'return value;'
scripts/thread_safety.sh "$work/counter.cpp" 2>&1 | grep -q "reading variable 'value' requires holding mutex 'mutex'"
result 'the check finds an access without the mutex' $?
program 'mutex.Lock(); return value;'
scripts/thread_safety.sh "$work/counter.cpp" 2>&1 | grep -q "mutex 'mutex' is still held"
result 'the check finds a mutex that stays locked' $?

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
