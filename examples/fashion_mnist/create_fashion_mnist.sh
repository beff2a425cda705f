#!/usr/bin/env bash
# Makes the LMDBs of Fashion-MNIST out of the IDX files of the Debian package dataset-fashion-mnist, or
# of $CARAFE_DATA/fashion-mnist (default data/fashion-mnist) where that folder is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="${CARAFE_DATA:-data}/fashion-mnist"
if [ ! -d "$folder" ]; then
  folder=/usr/share/datasets/fashion-mnist
fi
carafe=build/tools/carafe

find_idx() {
  local path
  for path in "$folder/$1.gz" "$folder/$1"; do
    if [ -f "$path" ]; then
      echo "$path"
      return
    fi
  done
  echo "create_fashion_mnist.sh: error: neither $folder/$1.gz nor $folder/$1 is there (looked from $PWD)" >&2
  echo "  fix: apt install dataset-fashion-mnist" >&2
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
  echo "create_fashion_mnist.sh: error: $carafe is not built" >&2
  echo "  fix: cmake --preset release && ninja -C build" >&2
  exit 1
fi
convert train examples/fashion_mnist/fashion_train_lmdb
convert t10k examples/fashion_mnist/fashion_test_lmdb
