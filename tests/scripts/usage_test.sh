#!/usr/bin/env bash
# quickstart.sh and test.sh refuse what they do not understand, before they do anything, from any folder.
set -uo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd / || exit 1
passed=0 failed=0

expect() { # CODE PATTERN COMMAND...
  local code=$1 pattern=$2 output status=0
  shift 2
  output=$("$@" 2>&1 </dev/null) || status=$?
  if [ "$status" = "$code" ] && grep -qE -- "$pattern" <<<"$output"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s: exit %s, printed:\n%s\n' "$*" "$status" "$output"
  fi
}

expect 0 '^usage: ./quickstart.sh' "$root/quickstart.sh" --help
expect 2 'unknown argument "--fast"' "$root/quickstart.sh" --fast
expect 2 '--ranks is "0"' "$root/quickstart.sh" --ranks 0
expect 2 '--ranks is "two"' "$root/quickstart.sh" --ranks=two
expect 2 '--ranks needs a value' "$root/quickstart.sh" --ranks
expect 2 '--mpi is "lam"' "$root/quickstart.sh" --mpi lam
expect 0 '^usage: ./test.sh' "$root/test.sh" --help
expect 2 'there is no stage "units"' "$root/test.sh" units

# A stage that cannot run is counted as skipped, and named with the reason.
without_nvcc=(env CUDACXX=/nonexistent PATH=/usr/bin:/bin "$root/test.sh" cuda --no-install)
expect 0 '^cuda: there is no nvcc$' "${without_nvcc[@]}"
expect 0 '^0 passed, 0 failed, 1 skipped$' "${without_nvcc[@]}"
expect 0 '^stages not asked for: .*\bgolden\b' "${without_nvcc[@]}"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
