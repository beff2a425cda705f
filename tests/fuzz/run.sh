#!/bin/bash
# Runs every fuzzer of a build with preset fuzz: first on the inputs that once broke something (regressions/), then for some
# seconds on mutations of the corpus. An input that breaks it is kept in BUILD_DIR/fuzz/finds; put it, made small, into
# regressions/NAME/ once it is mended. Prints "N passed, N failed".
#   tests/fuzz/run.sh [BUILD_DIR [SECONDS]]      default: build-fuzz 20
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(realpath "${1:-$root/build-fuzz}")
seconds=${2:-20}
finds=$build/fuzz/finds
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$finds"
passed=0
failed=0
export OMP_NUM_THREADS=1 UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0

result() { # NAME LOG: by the exit code of the command before
  local code=$?
  if [ $code = 0 ]; then
    passed=$((passed + 1))
    echo "ok    $1"
  else
    failed=$((failed + 1))
    echo "FAIL  $1: exit code $code"
    grep -E 'ERROR|runtime error|what\(\)|Test unit|#[0-9]+ .*carafe' "$2" | head -25 | sed 's/^/      /'
  fi
}

# Words of prototxt files, for the mutator: names of fields and values, layer types.
words() {
  grep -oE '^ +(optional|repeated|required) [A-Za-z0-9_.]+ [a-z0-9_A-Z]+|^ +[A-Z0-9_]+ = ' "$root/carafe/proto/carafe.proto" |
    sed -E 's/ = $//; s/.* //' | sort -u | sed 's/.*/"&"/'
  grep -rhoE '\.type = "[A-Za-z0-9]+"' "$root/carafe/layers" | sed -E 's/.*"(.*)"/"\\"\1\\""/' | sort -u
  printf '"%s"\n' ' { ' ' } ' ': ' 'dim: ' '-1' '0' '1' '2147483647' '-2147483648' '1e30' 'nan' 'true' 'false'
}

# Well-formed files of the kind that a fuzzer reads, and corpus/: the inputs that reached further, found in longer runs and
# made few by -merge=1 against the well-formed ones. To add to it, run a fuzzer for longer in the same way.
seeds() { # NAME FOLDER
  local golden=$root/tests/golden
  case $1 in
  net_fuzz) cp --backup=numbered "$golden"/layers/*.prototxt "$golden"/rejected/*.prototxt "$golden"/formats/upgrade/*.prototxt "$2" ;;
  weights_fuzz) find "$golden/formats/models" "$golden/solvers" -name '*.caffemodel' -size -200k -exec cp --backup=numbered -t "$2" {} + ;;
  state_fuzz) find "$golden/solvers" -name '*.solverstate' -exec cp --backup=numbered -t "$2" {} + ;;
  esac
  [ ! -d "$here/corpus/$1" ] || cp "$here/corpus/$1"/* "$2"
}

words >"$work/words"
for program in "$build"/fuzz/*_fuzz; do
  name=$(basename "$program")
  for input in "$here/regressions/$name"/*; do
    [ -f "$input" ] || continue
    "$program" -timeout=25 -rss_limit_mb=2048 "$input" >"$work/log" 2>&1
    result "$name, once broken: $(basename "$input")" "$work/log"
  done
  mkdir "$work/seeds" "$work/new"
  seeds "$name" "$work/seeds"
  "$program" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -max_len=16384 -dict="$work/words" -print_final_stats=1 \
    -artifact_prefix="$finds/$name-" "$work/new" "$work/seeds" >"$work/log" 2>&1
  result "$name, $(grep -oE 'number_of_executed_units: [0-9]+' "$work/log" | grep -oE '[0-9]+' || echo few) inputs in $seconds s" "$work/log"
  rm -rf "$work/seeds" "$work/new"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
