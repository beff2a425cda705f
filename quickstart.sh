#!/usr/bin/env bash
# From a bare Debian to LeNet trained over MPI ranks.
#
# usage: ./quickstart.sh [--no-install] [--ranks N] [--mpi openmpi|mpich] [--python]
#
#   --no-install   install no packages; say what is missing and go on
#   --ranks N      MPI ranks that train together (default 2)
#   --mpi NAME     openmpi (default) or mpich
#   --python       build the Python package instead (import caffe), with its environment build/venv; train nothing
#
# Installs the packages that are missing, builds build/tools/carafe, draws the embedded data set of digits,
# trains LeNet on it, and prints the test accuracy and where everything lies.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
source scripts/steps.sh
source scripts/packages.sh
source scripts/build.sh
source scripts/python.sh

usage() { sed -n '/^# usage/,/^$/{/^#/s/^# \{0,1\}//p}' quickstart.sh; }

wrong_usage() {
  complain "$1" 'see ./quickstart.sh --help'
  exit 2
}

install=() ranks=2 mpi=openmpi python=0
while [ $# != 0 ]; do
  case $1 in
  --no-install) install=(--no-install) ;;
  --python) python=1 ;;
  --ranks=* | --mpi=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
  --ranks | --mpi)
    [ $# -ge 2 ] || wrong_usage "$1 needs a value"
    if [ "$1" = --ranks ]; then ranks=$2; else mpi=$2; fi
    shift
    ;;
  -h | --help) usage && exit 0 ;;
  *) wrong_usage "unknown argument \"$1\"" ;;
  esac
  shift
done
[[ $ranks =~ ^[1-9][0-9]{0,3}$ ]] || wrong_usage "--ranks is \"$ranks\", not a number from 1 on"
[[ $mpi =~ ^(openmpi|mpich)$ ]] || wrong_usage "--mpi is \"$mpi\", not openmpi or mpich"

carafe=build/tools/carafe
logs=build/logs
example=examples/digits
run=runs/quickstart

draw_digits() {
  if [ -d $example/digits_train_lmdb ] && [ -d $example/digits_test_lmdb ]; then
    echo "data set: already drawn ($example/)"
    return
  fi
  run_step 'drawing 14,000 digits' $logs/digits.log 'see that the disk has 30 MB left, then run this again' \
    $carafe digits --out $example
}

# The last value of a test output in metrics.csv (iteration,seconds,phase,net,name,value).
last_test_value() {
  awk -F, -v name="$1" '$3 == "test" && $5 == name { value = $6 } END { print value }' $run/metrics.csv
}

# Ranks do not see the terminal through mpirun, so the progress line is asked for here. A Ctrl-C must not reach mpirun,
# which would kill the ranks after a while: it runs in a session of its own, and is asked to pass on a signal that makes
# them stop in good order (SIGUSR2 with Open MPI).
train() {
  local launch=() flags=(--solver="$example/lenet_solver.prototxt" --run_dir="$run") cores code=0 pid stop=INT stopped again=$carafe
  cores=$(nproc)
  if [ -z "${OMP_NUM_THREADS:-}" ]; then
    export OMP_NUM_THREADS=$((cores / ranks > 0 ? cores / ranks : 1))
  fi
  if [ "$ranks" != 1 ]; then
    set_mpi_environment
    export OMPI_MCA_odls_base_sigkill_timeout=10 # a killed run: 10 s to end the iteration and write a snapshot
    launch=("$(mpirun_of "$mpi")" -n "$ranks")
    [ "$mpi" = mpich ] || stop=USR2
  fi
  if [ -t 2 ] && is_terminal; then flags+=(--progress=bar --quiet); fi
  rm -rf $run.previous
  if [ -d $run ]; then mv $run $run.previous; fi
  mkdir -p $run
  echo "training LeNet: ${launch[*]} $carafe train ${flags[*]}"
  setsid "${launch[@]}" $carafe train "${flags[@]}" </dev/null &
  pid=$!
  # shellcheck disable=SC2064
  trap "kill -$stop $pid 2>/dev/null" INT
  # shellcheck disable=SC2064
  trap "kill -TERM $pid 2>/dev/null" TERM
  while true; do # a signal ends a wait early
    code=0
    wait "$pid" || code=$?
    kill -0 "$pid" 2>/dev/null || break
  done
  trap 'stop_step 130' INT
  trap 'stop_step 143' TERM
  [ "$ranks" = 1 ] || again="$carafe launch -n $ranks --mpi=$mpi --"
  stopped=$(sed -nE 's/.*\] (stopped at iteration [0-9]+).*/\1/p' $run/train.log 2>/dev/null | tail -n 1)
  if [ -n "$stopped" ]; then
    printf '\n%s; to go on from there:\n  %s train %s --snapshot=auto\n' "$stopped" "$again" "${flags[*]}"
    exit "$code"
  fi
  [ "$code" != 0 ] || return 0
  [ ! -s $run/train.log ] || show_log_tail $run/train.log
  complain "training failed with code $code" 'the reason stands above; the whole log is in '"$run/train.log"
  exit 1
}

report() {
  local accuracy snapshots
  accuracy=$(last_test_value accuracy)
  if [ -z "$accuracy" ]; then
    echo "stopped before the first test; to see all of it run ./quickstart.sh again"
    return
  fi
  snapshots=$(sed -nE 's/.*Snapshotting to (binary proto|HDF5) file (.*)$/\2/p' $run/train.log | tail -n 1)
  printf '\ntest accuracy  %s %%\n' "$(awk -v a="$accuracy" 'BEGIN { printf "%.2f", 100 * a }')"
  printf 'wall time      %s of training, %s in all\n' "$(format_seconds "$1")" "$(format_seconds $SECONDS)"
  printf 'log            %s\n' $run/train.log
  printf 'metrics        %s\n' $run/metrics.csv
  printf 'snapshot       %s\n' "${snapshots:-none was written}"
  printf '\nTo see what else it does: %s --help\n' $carafe
}

# A check that stands for the whole: the module loads, and sees the layers.
build_package() {
  ensure_packages "${install[@]}" build "$mpi" python
  if ! make_venv $logs/venv.log python/requirements.txt; then
    show_log_tail $logs/venv.log
    complain 'build/venv could not be made' 'see whether PyPI can be reached, and whether python3 -m venv works'
    exit 1
  fi
  build_python release $logs carafe_program carafe_python
  run_step 'import caffe' $logs/import.log 'see the log; build/venv and build/ can be deleted and made anew' \
    env PYTHONPATH=python:build/python build/venv/bin/python -c 'import caffe; print(caffe.layer_type_list())'
  printf '\nThe Python package is built. In this folder:\n'
  printf '  source build/venv/bin/activate\n  export PYTHONPATH=%s/python:%s/build/python\n' "$PWD" "$PWD"
  printf "  python -c 'import caffe; print(caffe.layer_type_list())'\n"
  printf '  mpirun -n 2 python python/train.py --solver=SOLVER\n'
}

if [ "$python" = 1 ]; then
  build_package
  exit
fi
ensure_packages "${install[@]}" build "$mpi"
build_preset release $logs carafe_program
draw_digits
started=$SECONDS
train
report $((SECONDS - started))
