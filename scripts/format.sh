#!/usr/bin/env bash
# Formats the C++ files with clang-format 14 (another version breaks lines elsewhere).
#   scripts/format.sh [--check] [FILE...]    default: every file of the project
# --check changes nothing, names each place that differs, and exits with 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

check=0
if [ "${1:-}" = --check ]; then check=1 && shift; fi

all_files() {
  # Also where git does not trust the folder's owner; without git, by name.
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' 2>/dev/null ||
    find carafe tools tests python benchmarks examples \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' \) -print0 2>/dev/null
}

if [ $# = 0 ]; then mapfile -d '' -t files < <(all_files); else files=("$@"); fi
existing=()
for file in "${files[@]}"; do
  [ ! -f "$file" ] || existing+=("$file")
done
[ ${#existing[@]} != 0 ] || { echo 'no file to format' && exit 1; }

clang_format=clang-format-14
if ! command -v $clang_format >/dev/null; then
  clang_format=clang-format
  if ! $clang_format --version 2>/dev/null | grep -q 'version 14\.'; then
    echo 'error: there is no clang-format of version 14' >&2
    echo '  fix: scripts/packages.sh tests, or pip install clang-format==14.0.6' >&2
    exit 1
  fi
fi
if [ $check = 0 ]; then
  $clang_format -i "${existing[@]}"
elif ! $clang_format --dry-run -Werror "${existing[@]}"; then
  echo "  fix: scripts/format.sh" >&2
  exit 1
fi
echo "${#existing[@]} files"
