#!/usr/bin/env bash
# The nightly runs: training to the end on real data, minutes each, compared with recorded results (results.md).
#
# (Direct against Winograd's convolutions over several seeds: algorithms.py.)
# usage: tests/convergence/run.sh [mnist] [fashion_mnist] [cifar10] [lstm]
#
# Needs the release build; mnist and cifar10 need $CARAFE_DATA/mnist and /cifar10 (default data/), fashion_mnist Debian's package
# dataset-fashion-mnist, lstm nothing. A set that is not there is skipped, and said so. Ends with `N passed, N failed[, N skipped]`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

passed=0 failed=0 skipped=0

# converge NAME LOWEST HIGHEST TRAIN...: the test accuracy at the end of the command must lie between the two.
converge() {
  local name=$1 low=$2 high=$3 run=runs/convergence/$1 accuracy
  if ! "examples/$name/create_$name.sh"; then
    echo "skip  $name: its data are not there"
    skipped=$((skipped + 1))
    return
  fi
  mkdir -p "$run"
  "${@:4}" --run_dir="$run" --quiet
  accuracy=$(awk -F, '$3 == "test" && $5 == "accuracy" { value = $6 } END { print value }' "$run/metrics.csv")
  if awk -v a="$accuracy" -v low="$low" -v high="$high" 'BEGIN { exit !(a >= low && a <= high) }'; then
    echo "ok    $name: test accuracy $accuracy"
    passed=$((passed + 1))
  else
    echo "FAIL  $name: test accuracy $accuracy, expected $low to $high"
    failed=$((failed + 1))
  fi
}

# The test loss of the LSTM must end below half of its text's bigram entropy (both in nats a character).
learn_text() {
  local run=runs/convergence/lstm entropy loss
  mkdir -p "$run"
  entropy=$(examples/lstm/create_text.sh | awk '/^bigram entropy/ { print $6 }')
  build/tools/carafe train --solver=examples/lstm/lstm_solver.prototxt --run_dir="$run" --quiet
  loss=$(awk -F, '$3 == "test" && $5 == "loss" { value = $6 } END { print value }' "$run/metrics.csv")
  if awk -v l="$loss" -v e="$entropy" 'BEGIN { exit !(e > 0 && l > 0 && l < e / 2) }'; then
    echo "ok    lstm: test loss $loss, bigram entropy $entropy"
    passed=$((passed + 1))
  else
    echo "FAIL  lstm: test loss $loss, expected less than half of the bigram entropy $entropy"
    failed=$((failed + 1))
  fi
}

[ $# != 0 ] || set -- mnist fashion_mnist cifar10 lstm
for name in "$@"; do
  case $name in
  mnist | fashion_mnist)
    range=(0.988 0.993)
    [ "$name" = mnist ] || range=(0.88 0.93)
    converge "$name" "${range[@]}" build/tools/carafe train --solver="examples/$name/lenet_solver.prototxt"
    ;;
  cifar10) converge cifar10 0.7285 0.7485 examples/cifar10/train_quick.sh ;; # the original: 0.7385
  lstm) learn_text ;;
  *) echo "there is no run \"$name\"" >&2 && exit 2 ;;
  esac
done
if [ "$skipped" = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ "$failed" = 0 ]
