#!/usr/bin/env bash
# packages.sh with a pretended system: stand-ins for dpkg-query, apt-get, id and sudo come first on PATH.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
passed=0 failed=0

make_tool() { # NAME BODY
  printf '#!/bin/sh\n%s\n' "$2" >"$tools/$1"
  chmod +x "$tools/$1"
}

# Every package is there but graphviz, unless the file `installed` says that apt-get has run.
fresh_system() {
  rm -f "$tools"/*
  make_tool dpkg-query 'shift 2; for p; do
    if [ "$p" != graphviz ] || [ -f '"$tools"'/installed ]; then echo "$p installed"; fi; done'
  make_tool apt-get 'echo "$*" >>'"$tools"'/calls; case "$*" in *install*) touch '"$tools"'/installed ;; esac'
  make_tool id 'echo 0'
  make_tool sudo 'exit 1'
}

# expect NAME CODE PATTERN COMMAND...: exit code, and a pattern that the output must match.
expect() {
  local name=$1 code=$2 pattern=$3 output status=0
  shift 3
  output=$(PATH=$tools:$PATH "$@" 2>&1 </dev/null) || status=$?
  if [ "$status" = "$code" ] && grep -qE -- "$pattern" <<<"$output"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s: exit %s, printed:\n%s\n' "$name" "$status" "$output"
  fi
}

expect_calls() { # NAME PATTERN: apt-get's calls in one line; "^$": none
  local calls
  calls=$(paste -sd';' "$tools/calls" 2>/dev/null)
  if grep -qE -- "$2" <<<"$calls"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED %s: apt-get was called with: %s\n' "$1" "$calls"
  fi
}

run=scripts/packages.sh
fresh_system
expect 'nothing is missing' 0 'all that is needed is there' $run build
expect_calls 'then apt-get is not called' '^$'
expect 'one is missing: it is named with its reason' 0 'graphviz +draws the picture' $run docs
expect_calls 'and it alone is installed, after an update' '^[^;]*update;[^;]*install -y --no-install-recommends graphviz$'
expect 'a second run finds it' 0 'all that is needed is there' $run docs
expect_calls 'and installs nothing' '^[^;]*;[^;]*$'

fresh_system
expect '--no-install goes on' 0 'packages that are missing' $run --no-install docs
expect_calls 'and calls no apt-get' '^$'

fresh_system
make_tool apt-get 'echo "Could not resolve the mirror"; exit 100'
expect 'no network: the log is shown' 1 'Could not resolve the mirror' $run docs
expect 'no network: the command is named' 1 'as root: apt-get update && apt-get install .* graphviz' $run docs

fresh_system
make_tool id 'echo 1000'
expect 'a user whom sudo refuses' 1 'sudo did not let this user.*' $run docs
expect_calls 'installs nothing' '^$'
make_tool sudo 'if [ "$1" = -n ]; then exit 0; fi; exec "$@"'
expect 'a user with sudo' 0 'installing 1 packages: done' $run docs
expect_calls 'installs through it' 'install'

fresh_system
expect 'a group that is not there' 2 'there is no package group "dosc"' $run dosc
expect 'the list' 0 '^build +g\+\+ +compiles' $run --list

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
