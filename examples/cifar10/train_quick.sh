#!/usr/bin/env bash
# Trains cifar10_quick: 4,000 iterations, then 1,000 with a tenth of the rate. Further flags are passed on to both.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=examples/cifar10
build/tools/carafe train --solver=$here/cifar10_quick_solver.prototxt "$@"
build/tools/carafe train --solver=$here/cifar10_quick_solver_lr1.prototxt \
  --snapshot=$here/cifar10_quick_iter_4000.solverstate "$@"
