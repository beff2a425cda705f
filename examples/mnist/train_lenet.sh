#!/usr/bin/env bash
# Trains LeNet; further flags are passed on. On several ranks: mpirun -n 2 examples/mnist/train_lenet.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
exec build/tools/carafe train --solver=examples/mnist/lenet_solver.prototxt "$@"
