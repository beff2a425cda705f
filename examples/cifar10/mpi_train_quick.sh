#!/usr/bin/env bash
# Trains cifar10_quick on several ranks, as Caffe-MPI's script of this name. Further flags are passed on to carafe train,
# e.g. --gpu=0,1 (those of each node) or --global_batch=100 (divide the batch instead of enlarging it).
#   NP=4 HOSTFILE=hosts examples/cifar10/mpi_train_quick.sh      default: 2 ranks on this machine
set -euo pipefail
cd "$(dirname "$0")/../.."
hosts=()
[ -z "${HOSTFILE:-}" ] || hosts=(-hostfile "$HOSTFILE")
exec "${MPIRUN:-mpirun}" "${hosts[@]}" -n "${NP:-2}" \
  build/tools/carafe train --solver=examples/cifar10/cifar10_quick_solver.prototxt "$@"
