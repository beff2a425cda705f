#!/usr/bin/env bash
# Sets up, builds and runs the tests, the cheapest first; the last line is "N passed, N failed[, N skipped]".
#
# usage: ./test.sh [STAGE...] [--no-install]
#
#   (none)    format, arrows, scripts and release: what a change should pass before it is sent
#   all       everything below: what CI runs
#   format    clang-format 14 has nothing to change
#   arrows    folders include only what they may
#   scripts   the scripts' own tests; documents and picture are up to date
#   release   unit, golden, cli, ranks and cluster, in the release build:
#   unit        the tests beside the code
#   golden      reference numbers of tests/golden
#   cli         the program as a user calls it; OpenCV as a reader of its files
#   ranks       training under mpirun, Open MPI and MPICH
#   cluster     training on hosts that are network namespaces; only for root, with iproute2
#   python    the Python package, in build/venv; only where PyPI can be reached
#   asan      unit, golden and what Python may do wrong, with address and undefined-behaviour sanitizers
#   tsan      comm, exchange and data, and training on several ranks and workers, with the thread sanitizer
#   fuzz      every fuzzer for 20 s, after the inputs that once broke something
#   cuda      compiles and links for CUDA, runs that build on the CPU; only where nvcc is there
#   vgpu      the code for GPUs on a virtual one; only where CUDA's headers are there
#
#   --no-install   install no packages; say what is missing and go on
#
# What cannot be run here (no root, no nvcc, no PyPI, missing data) is counted as skipped and named at the end.
# Logs are kept in build/test-logs/. CARAFE_DATA names the folder of real data sets (default: data/).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source scripts/steps.sh
source scripts/packages.sh
source scripts/build.sh
source scripts/python.sh

order=(format arrows scripts unit golden cli ranks cluster python asan tsan fuzz cuda vgpu)
logs=build/test-logs
declare -A wanted=()
install=()
for argument in "$@"; do
  case $argument in
  --no-install) install=(--no-install) ;;
  -h | --help) sed -n '/^# usage/,/^set /{/^#/s/^# \{0,1\}//p}' test.sh && exit 0 ;;
  all) for stage in "${order[@]}"; do wanted[$stage]=1; done ;;
  release) wanted[unit]=1 wanted[golden]=1 wanted[cli]=1 wanted[ranks]=1 wanted[cluster]=1 ;;
  format | arrows | scripts | unit | golden | cli | ranks | cluster | python | asan | tsan | fuzz | cuda | vgpu) wanted[$argument]=1 ;;
  *) complain "there is no stage \"$argument\"" 'see ./test.sh --help' && exit 2 ;;
  esac
done
if [ ${#wanted[@]} = 0 ]; then
  for stage in format arrows scripts unit golden cli ranks cluster; do wanted[$stage]=1; done
fi

is_wanted() {
  local name
  for name in "$@"; do [ -z "${wanted[$name]:-}" ] || return 0; done
  return 1
}

passed=0 failed=0 skipped=0 # of the running stage
all_passed=0 all_failed=0 all_skipped=0
table='' skips=''

# count PASSED FAILED SKIPPED TITLE [NOTE]
count() {
  passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
  printf '  %-28s %5d passed, %d failed%s%s\n' "$4" "$1" "$2" "$([ "$3" = 0 ] || echo ", $3 skipped")" "${5:+, $5}"
}

# skip TITLE REASON: something that cannot be run here; it counts, and is named again at the end.
skip() {
  count 0 0 1 "$1" "$2"
  skips+="$1: $2"$'\n'
}

# run_test TITLE LOG XML COMMAND...: runs a test program and counts its results; XML is "" unless it is GoogleTest.
# None may take longer than 20 minutes.
run_test() {
  local title=$1 log=$logs/$2.log xml=$3 code=0
  shift 3
  rm -f "${xml:-/nonexistent}"
  run_logged "$title" "$log" timeout -k 30 1200 "$@" || code=$?
  count_log "$title" "$log" "$code" "$xml"
}

# count_log TITLE LOG CODE XML: the results of a test program that has ended.
count_log() {
  local title=$1 log=$2 code=$3 xml=$4 result p f s note=''
  result=$(python3 scripts/count_tests.py "$log" "$code" ${xml:+"$xml"}) || result=$'0 1 0\nfailed: the results could not be counted'
  read -r p f s <<<"$(head -n 1 <<<"$result")"
  [ "$code" != 124 ] || note='stopped after 20 minutes'
  count "$p" "$f" "$s" "$title" "$note"
  skips+=$(sed -n "s|^skipped: |$title: |p" <<<"$result")
  [ "$s" = 0 ] || skips+=$'\n'
  if [ "$f" != 0 ]; then
    grep '^failed: ' <<<"$result" | head -n 40 | sed 's/^/  /'
    show_log_tail "$log" 2>&1
  fi
}

# run_unit PRESET FILTER [VARIABLE=VALUE...]
run_unit() {
  local preset=$1 filter=$2 folder
  folder=$(build_folder "$preset")
  shift 2
  run_test "unit ($preset)" "unit-$preset" '' env "$@" python3 scripts/unit_shards.py "$folder/tests/carafe_unit" "$filter" \
    "$logs/unit-$preset"
}

run_golden() { # PRESET [VARIABLE=VALUE...]
  local preset=$1
  shift
  run_test "golden ($preset)" "golden-$preset" '' env "$@" "$(build_folder "$preset")/tests/golden_runner" tests/golden
}

# run_scripts TITLE FILE...: every script counts as one check, or prints its own count.
run_scripts() {
  local title=$1 file
  shift
  for file in "$@"; do
    [ -x "$file" ] || continue
    run_test "$title $(basename "$file")" "$title-$(basename "$file")" '' "./$file"
  done
}

# run_together TITLE FILE...: the same for scripts that do not disturb each other, one on each core.
run_together() {
  local title=$1 file name code files=()
  shift
  for file in "$@"; do [ ! -x "$file" ] || files+=("$file"); done
  rm -f "$logs/$title"/*.code
  run_logged "$title (${#files[@]} scripts)" "$logs/$title.log" python3 scripts/run_together.py "$logs/$title" "${files[@]}"
  for file in "${files[@]}"; do
    name=$(basename "$file")
    code=$(cat "$logs/$title/$name.code" 2>/dev/null) || code=1
    count_log "$title $name" "$logs/$title/$name.log" "$code" ''
  done
}

# The filter for the tests that lie in these folders of carafe/.
suites_of() {
  local suite filter=''
  while IFS= read -r suite; do
    filter+="$suite.*:*/$suite.*:$suite/*:*/$suite/*:"
  done < <(cd carafe && grep -rhoE '^(TYPED_)?TEST(_F|_P)?\(\w+' --include='*_test.cpp' "$@" | sed 's/.*(//' | sort -u)
  printf '%s' "${filter:-none.}"
}

# build_tests PRESET TARGET...: a build that fails is a failed check.
build_tests() {
  local targets=("${@:2}")
  build_preset "$1" "$logs" "${targets[@]}" && return 0
  count 0 1 0 "build ($1)"
  return 1
}

stage_format() { run_test 'clang-format' format '' scripts/format.sh --check; }

stage_arrows() {
  run_test 'include arrows' arrows '' python3 scripts/check_includes.py
  run_scripts arrows tests/scripts/check_includes_test.py
}

stage_scripts() {
  local file files=()
  for file in tests/scripts/*; do
    [ "$file" = tests/scripts/check_includes_test.py ] || files+=("$file")
  done
  run_scripts scripts "${files[@]}"
}

release_is_built=''
build_release() {
  local targets=(all)
  if ! is_wanted cli ranks cluster; then
    targets=()
    ! is_wanted unit || targets+=(carafe_unit)
    ! is_wanted golden || targets+=(golden_runner carafe_program)
    [ ${#targets[@]} != 0 ] || return 0
  fi
  build_tests release "${targets[@]}" && release_is_built=1
}

need_release() {
  [ -z "$release_is_built" ] || return 0
  skip "$1" 'the release build failed'
  return 1
}

stage_unit() { need_release unit && run_unit release '*'; }
stage_golden() { need_release golden && run_golden release; }
stage_cli() { need_release cli && run_together cli tests/cli/* tests/opencv/run.sh; }
stage_ranks() { need_release ranks && run_scripts ranks tests/ranks/run.sh tests/ranks/pairwise.py; }

stage_cluster() {
  need_release cluster || return
  if [ "$(id -u)" = 0 ] && command -v ip >/dev/null; then
    run_test 'cluster selftest' cluster-selftest '' tests/cluster/cluster.sh selftest
  fi
  run_scripts cluster tests/cluster/*.py
}

python_venv() { # TITLE
  make_venv "$logs/venv.log" python/requirements.txt tests/python/requirements.txt && return 0
  skip "$1" "build/venv could not be made (PyPI out of reach?); see $logs/venv.log"
  return 1
}

stage_python() {
  python_venv python || return
  if ! build_python release "$logs" carafe_program carafe_python; then
    count 0 1 0 'build (python)'
    return
  fi
  run_test python python '' env PYTHONPATH=python:build/python OMP_NUM_THREADS=1 \
    build/venv/bin/python tests/python/run.py
  run_test 'python (installed)' python-installed '' build/venv/bin/python tests/python/run.py installed_package.py
}

# Python itself knows nothing of the sanitizers, so their libraries are loaded before all others; libstdc++ too, for they
# look for its functions when they start. Leaks are Python's own.
run_python_asan() {
  local folder library preload=''
  folder=$(build_folder asan)
  python_venv 'python (asan)' || return
  if ! build_python asan "$logs" carafe_python; then
    count 0 1 0 'build (python, asan)'
    return
  fi
  for library in libasan.so libubsan.so libstdc++.so.6; do preload+="$(c++ -print-file-name=$library) "; done
  run_test 'python (asan)' python-asan '' env "$@" "LD_PRELOAD=$preload" PYTHONMALLOC=malloc OMP_NUM_THREADS=1 \
    ASAN_OPTIONS=detect_stack_use_after_return=1:detect_leaks=0 PYTHONPATH="python:$folder/python" \
    build/venv/bin/python tests/python/run.py test_{bad_moments,blob,like_pycaffe,net,python_layer,solver}.py
}

stage_asan() {
  build_tests asan carafe_unit golden_runner carafe_program || return
  local options=(ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1)
  # A thousand ranks and ten thousand schedules take minutes here; the engine's other tests walk the same code.
  run_unit asan '*-*Thousand*:SimBytes.SumsInside*:Sim.RandomDelays*' "${options[@]}"
  run_golden asan "${options[@]}"
  run_python_asan "${options[@]}"
}

# Correct OpenMP loops are reported falsely (libgomp is not instrumented), hence one thread.
stage_tsan() {
  build_tests tsan carafe_unit || return
  # What runs in virtual time has one thread, and the rules of updates need no second look.
  run_unit tsan "$(suites_of comm exchange data train/law_test.cpp)-*Sim*:ManagedBandwidth*:*RuleLawTest*" OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 \
    TSAN_OPTIONS=ignore_noninstrumented_modules=1
}

stage_fuzz() {
  build_tests fuzz fuzzers || return
  run_test 'fuzz run.sh' fuzz '' tests/fuzz/run.sh "$(build_folder fuzz)" 20
}

stage_cuda() {
  if ! command -v nvcc >/dev/null && [ ! -x "${CUDACXX:-/usr/local/cuda/bin/nvcc}" ]; then
    skip cuda 'there is no nvcc'
    return
  fi
  build_tests cuda all || return
  count 1 0 0 'build (cuda)'
  run_unit cuda "$(suites_of kernels layers solvers)"
  run_test 'no GPU (cuda)' no-gpu-cuda '' env "CARAFE_BUILD=$PWD/$(build_folder cuda)" tests/vgpu/no_gpu.py
}

# Every seed is another order of the work in streams; 0: as late as possible.
stage_vgpu() {
  local seed
  if [ ! -f "${CUDA_HOME:-/usr/local/cuda}/include/cuda_runtime_api.h" ]; then
    skip vgpu "there are no headers of CUDA"
    return
  fi
  build_tests vgpu golden_runner carafe_program vgpu_test ptx_test || return
  run_test 'PTX interpreter' unit-ptx "$logs/unit-ptx.xml" "$(build_folder vgpu)/tests/ptx_test" \
    "--gtest_output=xml:$logs/unit-ptx.xml"
  run_test 'unit (vgpu)' unit-vgpu "$logs/unit-vgpu.xml" "$(build_folder vgpu)/tests/vgpu_test" \
    "--gtest_output=xml:$logs/unit-vgpu.xml"
  for seed in 0 1; do
    run_test "golden (vgpu, seed $seed)" "golden-vgpu-$seed" '' env "CARAFE_VGPU_SEED=$seed" \
      "$(build_folder vgpu)/tests/golden_runner" tests/golden --gpu=0 '--filter=^(layer|solver|model|filler|property)/'
  done
  run_scripts vgpu tests/vgpu/*.py
}

run_stage() {
  local name=$1 start=$SECONDS
  shift
  passed=0 failed=0 skipped=0
  printf '\n== %s\n' "$name"
  "$@"
  all_passed=$((all_passed + passed)) all_failed=$((all_failed + failed)) all_skipped=$((all_skipped + skipped))
  table+=$(printf '%-10s %6.1f min %6d passed, %d failed, %d skipped' "$name" \
    "$(awk -v s=$((SECONDS - start)) 'BEGIN { print s / 60 }')" $passed $failed $skipped)$'\n'
}

groups=(tests)
! is_wanted unit golden cli ranks cluster python asan tsan fuzz cuda vgpu || groups=(build openmpi mpich tests data)
! is_wanted python || groups+=(python)
! is_wanted fuzz || groups+=(fuzz)
! is_wanted cluster || groups+=(cluster)
if ! ensure_packages "${install[@]}" "${groups[@]}"; then
  echo '0 passed, 1 failed'
  exit 1
fi
mkdir -p "$logs"
set_mpi_environment
export CARAFE_DATA=${CARAFE_DATA:-$PWD/data}

for stage in format arrows scripts; do
  ! is_wanted $stage || run_stage $stage stage_$stage
done
! is_wanted unit golden cli ranks cluster || run_stage build build_release
for stage in unit golden cli ranks cluster python asan tsan fuzz cuda vgpu; do
  ! is_wanted $stage || run_stage $stage stage_$stage
done

printf '\n%s%-10s %6.1f min\n' "$table" total "$(awk -v s=$SECONDS 'BEGIN { print s / 60 }')"
not_asked=''
for stage in "${order[@]}"; do is_wanted "$stage" || not_asked+=" $stage"; done
[ -z "$not_asked" ] || echo "stages not asked for:$not_asked"
[ -z "$skips" ] || printf 'skipped:\n%s' "$skips"
echo "$all_passed passed, $all_failed failed$([ "$all_skipped" = 0 ] || echo ", $all_skipped skipped")"
[ "$all_failed" = 0 ]
