#!/usr/bin/env bash
# The compiler's launcher: a precompiled header follows what it includes, also where an old one lies in its place.
set -u
cd "$(dirname "$0")/../.." || exit 1
launcher=$PWD/scripts/compile.sh
if ! command -v ccache >/dev/null || ! command -v g++ >/dev/null; then
  echo 'SKIPPED the launcher of the compiler: there is no ccache or no g++'
  echo 'SKIPPED precompiled headers through it: there is no ccache or no g++'
  echo '0 passed, 0 failed, 2 skipped'
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export CCACHE_DIR=$work/cache
passed=0 failed=0

echo '#include "inner.h"' >all.hxx
: >all.hxx.cxx
# precompile NAME: inner.h declares a function of this name
precompile() {
  printf '#pragma once\ninline int %s() { return 0; }\n' "$1" >inner.h
  "$launcher" "$work" g++ -I"$work" -x c++-header -include "$work/all.hxx" -o all.hxx.gch -c all.hxx.cxx
}
# expect NAME TITLE
expect() {
  echo "int main() { return $1(); }" >main.cpp
  if "$launcher" "$work" g++ -include "$work/all.hxx" -o main.o -c main.cpp; then
    passed=$((passed + 1))
    echo "ok    $2"
  else
    failed=$((failed + 1))
    echo "FAIL  $2"
  fi
}

precompile first
cp -p all.hxx.gch old
precompile second
expect second 'a header that has changed is precompiled again'
cp -p old all.hxx.gch
precompile third
expect third 'what was precompiled over the same old one is not brought back'
echo "$passed passed, $failed failed"
[ $failed = 0 ]
