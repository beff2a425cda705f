#!/usr/bin/env bash
# Writes the fixtures of this folder with a carafe program of 259e51b: make.sh PROGRAM [OUTPUT FOLDER]
set -euo pipefail
program=$(readlink -f "$1")
here=$(cd "$(dirname "$0")" && pwd)
out=$(readlink -f "${2:-$here}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
: > "$out/rates.txt"
grep -v '^#' "$here/cases.txt" | while IFS='|' read -r name formats net workers algorithm settings; do
  name=${name// /} net=${net// /} workers=${workers// /} algorithm=${algorithm// /}
  for format in $formats; do
    end=""; [ "$format" = hdf5 ] && end=".h5"
    {
      cat "$here/common.txt"
      echo "net: \"$here/$net.prototxt\" random_seed: 7 snapshot_prefix: \"$name\" max_iter: 10 $settings"
      [ "$format" = hdf5 ] && echo "snapshot_format: HDF5"
    } > solver.prototxt
    "$program" train --solver=solver.prototxt --threads=1 --workers="$workers" --algorithm="$algorithm" > log 2>&1 < /dev/null
    cp "${name}_iter_5.caffemodel$end" "${name}_iter_5.solverstate$end" "$out"
    if [ "$format" = binary ]; then
      cp "${name}_iter_10.caffemodel" "${name}_iter_10.solverstate" "$out"
      echo "$name $(grep -o 'Iteration 9, lr = .*' log | sed 's/.*= //')" >> "$out/rates.txt"
    fi
  done
done
