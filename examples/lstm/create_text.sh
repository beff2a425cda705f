#!/usr/bin/env bash
# Writes text.txt and makes the databases text_train_lmdb and text_test_lmdb of it; prints its bigram entropy.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=examples/lstm
rm -rf "$here/text_train_lmdb" "$here/text_test_lmdb"
python3 "$here/write_text.py" >"$here/text.txt"
build/tools/carafe convert_text_data "$here/text.txt" "$here/text_train_lmdb" "$here/text_test_lmdb"
