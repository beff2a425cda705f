#!/usr/bin/env bash
# Checks the lock annotations (carafe/base/thread_annotations.h) with clang 19: in every .cpp file of base, core, comm and
# exchange that includes an annotated header, or in the files that are named. Needs no build.
#   scripts/thread_safety.sh [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
clang=$(command -v clang++-19) || {
  printf 'error: there is no clang++-19\n  fix: scripts/packages.sh fuzz\n' >&2
  exit 1
}
files=("$@")
if [ ${#files[@]} = 0 ]; then
  mapfile -t headers < <(grep -rlE '#include "carafe/base/(mutex|thread_annotations)\.h"' carafe --include='*.h'; echo carafe/base/mutex.h)
  pattern=$(printf '%s|' "${headers[@]}")
  mapfile -t files < <(grep -rlE "#include \"(${pattern%|})\"" carafe/{base,core,comm,exchange} --include='*.cpp' | grep -v '_test\.cpp$' | sort)
fi
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} "$clang" -fsyntax-only -std=c++20 -DFMT_SHARED -I. \
  -Wno-deprecated-declarations -Wthread-safety -Wthread-safety-beta -Werror=thread-safety-analysis -Werror=thread-safety-attributes -Werror=thread-safety-precise \
  -Werror=thread-safety-reference -Werror=thread-safety-beta {}
printf '%d files\n' ${#files[@]}
