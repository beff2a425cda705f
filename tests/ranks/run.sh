#!/bin/bash
# Runs ranks_check under every MPI that is installed, with 2, 3 and 4 ranks; prints "N passed, N failed".
#   tests/ranks/run.sh [BUILD_DIR]
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build}
program=$build/tests/ranks_check
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
# Open MPI's mpirun sleeps twice this long whenever a rank ends with another code than 0 (decision 7).
export OMPI_MCA_odls_base_sigkill_timeout=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1

launch() {  # launch MPI RANKS ARGUMENTS...: output in $work/out and $work/err, returns the exit code
  local mpi=$1 ranks=$2
  shift 2
  case $mpi in
    openmpi) timeout 300 mpirun.openmpi --oversubscribe --bind-to none -n "$ranks" "$@" ;;
    mpich) timeout 300 mpirun.mpich -n "$ranks" "$@" ;;
  esac >"$work/out" 2>"$work/err" </dev/null
}

result() {  # result NAME PROBLEM
  if [ -z "$2" ]; then
    passed=$((passed + 1))
    echo "ok    $1"
  else
    failed=$((failed + 1))
    echo "FAIL  $1: $2"
    sed 's/^/      /' "$work/out" "$work/err" | head -40
  fi
}

expect_ok() {  # expect_ok MPI RANKS ARGUMENTS...
  local problem=""
  launch "$1" "$2" "$program" "${@:3}"
  local code=$?
  [ $code -eq 0 ] || problem="exit code $code"
  [ "$(grep -c '^ok ' "$work/out")" = 1 ] || problem="$problem, not one group of $2 ranks"
  result "$1, $2 ranks: ${*:3}" "$problem"
}

# Ends with an error, with exactly one line that rank R says and that matches PATTERN; leaves no process. How long it takes is
# the machine's affair: a rank that waits in vain would wait for longer than launch() allows, and the patterns say what ended it.
expect_error() {  # expect_error MPI RANKS PATTERN ARGUMENTS...
  local mpi=$1 ranks=$2 pattern=$3 problem=""
  shift 3
  launch "$mpi" "$ranks" "$program" "$@"
  local code=$?
  [ $code -ne 0 ] && [ $code -ne 124 ] || problem="exit code $code"
  if [ -n "$pattern" ]; then
    [ "$(grep -c ' says: ' "$work/err")" = 1 ] || problem="$problem, not one message"
    grep -qE "$pattern" "$work/err" || problem="$problem, no /$pattern/"
  fi
  result "$mpi, $ranks ranks: $*" "$problem"
}

# A rank that leaves with code 0: the others end. The code is the launcher's affair: MPICH's kills the rest, and
# returns 9 or 0 as it happens to see them (4 of 12 runs gave 0).
expect_end() {  # expect_end MPI RANKS ARGUMENTS...
  local mpi=$1 ranks=$2 problem=""
  shift 2
  launch "$mpi" "$ranks" "$program" "$@"
  local code=$?
  [ $code -ne 124 ] || problem="does not end"
  [ $code -ne 0 ] || [ "$mpi" = mpich ] || problem="exit code 0"
  result "$mpi, $ranks ranks: $*" "$problem"
}

alive() {  # processes of our program that are not zombies
  local pid
  for pid in $(pgrep -x ranks_check); do
    [ "$(readlink -f "/proc/$pid/exe" 2>/dev/null)" = "$(readlink -f "$program")" ] && echo "$pid"
  done
}

mpis=""
for mpi in openmpi mpich; do
  command -v "mpirun.$mpi" >/dev/null && [ -e "$build/lib/libcarafe_mpi_$mpi.so" ] && mpis="$mpis $mpi"
done
[ -n "$mpis" ] || echo "no MPI is installed: nothing to run"

for mpi in $mpis; do
  for ranks in 2 3 4; do
    expect_ok "$mpi" $ranks sums
    expect_ok "$mpi" $ranks group
    CARAFE_SHM=off expect_ok "$mpi" $ranks sums
    expect_error "$mpi" $ranks 'rank 0 says: rank 1 on [^ ]+: error: no such file' agree
    expect_error "$mpi" $ranks 'rank 0 says: .*train_lmdb: record 17' fail 1
    expect_error "$mpi" $ranks 'rank 0 says: .*train_lmdb: record 17' fail 0
    lost='is lost: .*; this rank was waiting for: [a-z]'
    [ "$mpi" = openmpi ] || lost=''  # Hydra kills the others before they can report
    expect_error "$mpi" $ranks "${lost:+rank 1 on [^ ]+ $lost}" die 1
    expect_error "$mpi" $ranks "${lost:+rank 0 on [^ ]+ $lost}" die 0
  done
  RANKS_CHECK_WAIT=3 expect_error "$mpi" 3 'waited 3.* rank 2 on ' hang 2
  RANKS_CHECK_SILENCE=2 expect_error "$mpi" 3 'rank 2 on [^ ]+ is lost: no sign of life' stop 2
  RANKS_CHECK_SILENCE=2 expect_error "$mpi" 3 'rank 1 says: .*rank 0 on [^ ]+ is lost' stop 0
  expect_end "$mpi" 3 leave 1

  # Two jobs at once on one host share nothing, and leave nothing behind.
  before=$(ls /dev/shm)
  (launch "$mpi" 2 "$program" sums && cp "$work/out" "$work/other") &
  other=$!
  work2=$work; work=$work2/second; mkdir -p "$work"
  expect_ok "$mpi" 3 sums
  work=$work2
  wait $other
  result "$mpi, another job meanwhile" "$(grep -q '^ok sums on 2 ranks' "$work/other" || echo failed)"
  result "$mpi, nothing is left in /dev/shm" "$(comm -13 <(echo "$before") <(ls /dev/shm) | grep -i carafe)"
done

# No launcher: one rank, and no MPI library in the process.
"$program" sums >"$work/out" 2>"$work/err"
result "without a launcher" "$(grep -q '^ok sums on 1 ranks' "$work/out" || echo "no group of one")"

# The launcher of one MPI with the plug-in of the other must not become several jobs of one rank.
case $mpis in
  *openmpi*mpich*)
    CARAFE_MPI=mpich expect_error openmpi 2 'error: mpirun of Open MPI .* wrong MPI' sums
    CARAFE_MPI=openmpi expect_error mpich 2 'error: mpirun of MPICH .* wrong MPI' sums
    ;;
esac

# The library without its plug-ins: the message names the packages.
mkdir "$work/lib"
cp "$build/lib/libcarafe.so" "$work/lib"
for mpi in $mpis; do
  LD_LIBRARY_PATH=$work/lib expect_error "$mpi" 2 'install the packages lib(openmpi|mpich)-dev' sums
done

left=$(alive)
result "no process is left" "$left"
[ -z "$left" ] || kill -9 $left
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
