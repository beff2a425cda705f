#!/usr/bin/env bash
# Makes the LMDBs of MNIST out of its four IDX files (gzipped or not), which are looked for in
# $CARAFE_DATA/mnist (default data/mnist; relative to the root of the repository).
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="${CARAFE_DATA:-data}/mnist"
carafe=build/tools/carafe

find_idx() {
  local path
  for path in "$folder/$1.gz" "$folder/$1"; do
    if [ -f "$path" ]; then
      echo "$path"
      return
    fi
  done
  echo "create_mnist.sh: error: neither $folder/$1.gz nor $folder/$1 is there (looked from $PWD)" >&2
  echo "  fix: put the four files of MNIST there, or set CARAFE_DATA to the folder that holds mnist/" >&2
  return 1
}

convert() {  # convert train|t10k DATABASE
  local images labels
  if [ -e "$2" ]; then
    echo "$2 is there already; remove it to make it again"
    return
  fi
  images="$(find_idx "$1-images-idx3-ubyte")"
  labels="$(find_idx "$1-labels-idx1-ubyte")"
  "$carafe" convert_mnist_data "$images" "$labels" "$2"
}

if [ ! -x "$carafe" ]; then
  echo "create_mnist.sh: error: $carafe is not built" >&2
  echo "  fix: cmake --preset release && ninja -C build" >&2
  exit 1
fi
convert train examples/mnist/mnist_train_lmdb
convert t10k examples/mnist/mnist_test_lmdb
