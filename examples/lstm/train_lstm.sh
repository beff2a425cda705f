#!/usr/bin/env bash
# Trains the LSTM; further flags are passed on. On two ranks, with the same batches:
#   mpirun -n 2 examples/lstm/train_lstm.sh --global_batch=512
set -euo pipefail
cd "$(dirname "$0")/../.."
exec build/tools/carafe train --solver=examples/lstm/lstm_solver.prototxt "$@"
