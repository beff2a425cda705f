#!/usr/bin/env bash
# Makes the databases of CIFAR-10 and their mean picture in this folder.
#   create_cifar10.sh [lmdb|leveldb]     default: lmdb, which the prototxts read
set -euo pipefail
cd "$(dirname "$0")/../.."

backend="${1:-lmdb}"
carafe=build/tools/carafe
here=examples/cifar10
classes=(airplane automobile bird cat deer dog frog horse ship truck) # in the order of their labels

if [ "$backend" != lmdb ] && [ "$backend" != leveldb ]; then
  echo "create_cifar10.sh: error: there is no backend \"$backend\"" >&2
  echo "  fix: use lmdb or leveldb" >&2
  exit 2
fi
if [ ! -x "$carafe" ]; then
  echo "create_cifar10.sh: error: $carafe is not built" >&2
  echo "  fix: cmake --preset release && ninja -C build" >&2
  exit 1
fi

# convert_pictures FOLDER train|test: pictures in folders by class become one database, in random order.
convert_pictures() {
  local list="$here/$2.txt" label
  for label in "${!classes[@]}"; do
    find -L "$1/$2/${classes[$label]}" -type f -printf "${classes[$label]}/%f $label\n" | LC_ALL=C sort
  done >"$list"
  "$carafe" convert_imageset --shuffle --backend="$backend" "$1/$2/" "$list" "$here/cifar10_$2_$backend"
}

train="$here/cifar10_train_$backend" test="$here/cifar10_test_$backend"
if [ -e "$train" ] && [ -e "$test" ]; then
  echo "$train and $test are there already; remove them to make them again"
else
  folder="$("$here/get_cifar10.sh")"
  rm -rf "$train" "$test"
  if [ -f "$folder/data_batch_1.bin" ]; then
    "$carafe" convert_cifar_data "$folder" "$here" "$backend"
  else
    convert_pictures "$folder" train
    convert_pictures "$folder" test
  fi
  rm -f "$here/mean.binaryproto"
fi
if [ ! -e "$here/mean.binaryproto" ]; then
  "$carafe" compute_image_mean --backend="$backend" "$train" "$here/mean.binaryproto"
fi
