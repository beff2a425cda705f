#!/usr/bin/env bash
# clang-tidy over the C++ files that differ from a branch (default main), or over the files that are named. Slow: 5 to
# 20 s a file, so no part of ./test.sh.
#   scripts/tidy.sh [--since BRANCH] [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
since=main
if [ "${1:-}" = --since ]; then since=$2 && shift 2; fi
tidy=$(command -v clang-tidy-19 || command -v clang-tidy-16) || {
  printf 'error: there is no clang-tidy-19\n  fix: scripts/packages.sh tidy\n' >&2
  exit 1
}
if [ ! -f build/compile_commands.json ]; then
  printf 'error: there is no build/compile_commands.json\n  fix: cmake --preset release && ninja -C build\n' >&2
  exit 1
fi
files=("$@")
if [ ${#files[@]} = 0 ]; then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$(git merge-base HEAD "$since")" -- 'carafe/*.cpp' 'tools/*.cpp')
fi
if [ ${#files[@]} = 0 ]; then
  echo "no C++ file differs from $since"
  exit 0
fi
# A copy of the compile commands without the precompiled headers, which are g++'s and which clang cannot read.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sed -E 's/ -Winvalid-pch -include [^ ]+cmake_pch\.hxx//; s/-fsanitize=[^ ]*//' build/compile_commands.json >"$folder/compile_commands.json"
status=0
for file in "${files[@]}"; do
  echo "$file"
  "$tidy" --quiet -p "$folder" "$file" 2>/dev/null || status=1
done
exit $status
