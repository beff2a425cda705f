#!/usr/bin/env bash
# Draws the embedded data set (carafe/data/digits.h) into two LMDBs beside this file.
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ -e examples/digits/digits_train_lmdb ] && [ -e examples/digits/digits_test_lmdb ]; then
  echo "the databases are there already; remove examples/digits/digits_*_lmdb to make them again"
  exit 0
fi
exec build/tools/carafe digits --out=examples/digits "$@"
