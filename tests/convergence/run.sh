#!/usr/bin/env bash
# The nightly runs: training to the end on real data, minutes each, compared with recorded results (results.md).
#
# usage: tests/convergence/run.sh [mnist] [fashion_mnist] [lstm]
#
# Needs the release build; mnist needs $CARAFE_DATA/mnist (default data/mnist), fashion_mnist Debian's package
# dataset-fashion-mnist, lstm nothing. A set that is not there is skipped, and said so. Ends with `N passed, N failed[, N skipped]`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

passed=0 failed=0 skipped=0

# converge NAME LOWEST HIGHEST: the test accuracy at the end must lie between the two.
converge() {
  local name=$1 run=runs/convergence/$1 accuracy
  if ! "examples/$name/create_$name.sh"; then
    echo "skip  $name: its data are not there"
    skipped=$((skipped + 1))
    return
  fi
  mkdir -p "$run"
  build/tools/carafe train --solver="examples/$name/lenet_solver.prototxt" --run_dir="$run" --quiet
  accuracy=$(awk -F, '$3 == "test" && $5 == "accuracy" { value = $6 } END { print value }' "$run/metrics.csv")
  if awk -v a="$accuracy" -v low="$2" -v high="$3" 'BEGIN { exit !(a >= low && a <= high) }'; then
    echo "ok    $name: test accuracy $accuracy"
    passed=$((passed + 1))
  else
    echo "FAIL  $name: test accuracy $accuracy, expected $2 to $3"
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

[ $# != 0 ] || set -- mnist fashion_mnist lstm
for name in "$@"; do
  case $name in
  mnist) converge mnist 0.988 0.993 ;;
  fashion_mnist) converge fashion_mnist 0.88 0.93 ;;
  lstm) learn_text ;;
  *) echo "there is no run \"$name\"" >&2 && exit 2 ;;
  esac
done
if [ "$skipped" = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ "$failed" = 0 ]
