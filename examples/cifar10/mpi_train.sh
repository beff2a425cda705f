#!/usr/bin/env bash
# Trains cifar10_quick with one process per device, named one by one as in caffe-parallel's script of this name. Further
# flags are passed on to every process.
#   GPUS="0 1" examples/cifar10/mpi_train.sh      one rank on each of these GPUs; default: two ranks on the CPU
set -euo pipefail
cd "$(dirname "$0")/../.."
read -r -a devices <<<"${GPUS:-cpu cpu}"
command=()
for device in "${devices[@]}"; do
  [ ${#command[@]} = 0 ] || command+=(:)
  command+=(-n 1 build/tools/carafe train --solver=examples/cifar10/cifar10_quick_solver.prototxt)
  [ "$device" = cpu ] || command+=("--gpu=$device")
  command+=("$@")
done
exec "${MPIRUN:-mpirun}" "${command[@]}"
