#!/usr/bin/env bash
# Finds CIFAR-10 in $CARAFE_DATA/cifar10 (default data/cifar10; relative to the root of the repository), unpacks it into
# examples/cifar10/cifar10_raw where that is needed, and prints the folder that holds it. It takes, the first that is
# there of:
#   cifar-10-batches-bin/ or cifar-10-binary.tar.gz   the original's binary version
#   train/<class>/* and test/<class>/* (pictures), or cifar10-jpeg.tar.xz with those in it
# Another folder to unpack into: get_cifar10.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."

from="${CARAFE_DATA:-data}/cifar10"
raw="${1:-examples/cifar10/cifar10_raw}"

is_there() { [ -f "$1/data_batch_1.bin" ] || [ -d "$1/train/airplane" ]; }

for folder in "$from/cifar-10-batches-bin" "$from" "$raw/cifar-10-batches-bin" "$raw"; do
  if is_there "$folder"; then
    echo "$folder"
    exit
  fi
done
for archive in cifar-10-binary.tar.gz cifar10-jpeg.tar.xz; do
  [ -f "$from/$archive" ] || continue
  echo "get_cifar10.sh: unpacking $from/$archive into $raw" >&2
  rm -rf "$raw.tmp"
  mkdir -p "$raw.tmp"
  tar -xf "$from/$archive" -C "$raw.tmp"
  rm -rf "$raw"
  mv "$raw.tmp" "$raw"
  for folder in "$raw/cifar-10-batches-bin" "$raw"; do
    if is_there "$folder"; then
      echo "$folder"
      exit
    fi
  done
  echo "get_cifar10.sh: error: $from/$archive does not hold CIFAR-10" >&2
  echo "  fix: get the archive again" >&2
  exit 1
done
echo "get_cifar10.sh: error: CIFAR-10 is not in $from (looked from $PWD)" >&2
echo "  fix: put cifar-10-binary.tar.gz (from the home page of CIFAR-10) there, or set CARAFE_DATA to the folder that" \
  "holds cifar10/" >&2
exit 1
