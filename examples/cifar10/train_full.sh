#!/usr/bin/env bash
# Trains cifar10_full: 60,000 iterations, then 5,000 with a tenth and 5,000 with a hundredth of the rate. Further flags
# are passed on to all three.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=examples/cifar10
build/tools/carafe train --solver=$here/cifar10_full_solver.prototxt "$@"
build/tools/carafe train --solver=$here/cifar10_full_solver_lr1.prototxt \
  --snapshot=$here/cifar10_full_iter_60000.solverstate "$@"
build/tools/carafe train --solver=$here/cifar10_full_solver_lr2.prototxt \
  --snapshot=$here/cifar10_full_iter_65000.solverstate "$@"
