#!/usr/bin/env bash
# Compares Carafe with another reader of its files, the dnn module of OpenCV: see compare.py. OpenCV comes from PyPI into
# build/opencv-venv, once; where it cannot be had, the comparison is skipped. Ends with `N passed, N failed[, N skipped]`.
#   tests/opencv/run.sh [REGEX]      compares the nets whose names match
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

venv=build/opencv-venv
python=$venv/bin/python
packages=('opencv-python-headless>=4.5,<5' numpy) # 5 has no reader of Caffe's files

skip() {
  echo "SKIPPED opencv: $1"
  echo '0 passed, 0 failed, 1 skipped'
  exit 0
}

if ! "$python" -c 'import cv2, numpy' 2>/dev/null; then
  mkdir -p build
  log=build/opencv-venv.log
  rm -rf "$venv"
  python3 -m venv "$venv" >"$log" 2>&1 || skip "no virtual environment can be made: install python3-venv (log: $log)"
  timeout 300 "$python" -m pip install --quiet --only-binary=:all: "${packages[@]}" >>"$log" 2>&1 ||
    skip "${packages[0]} cannot be had from PyPI: $(grep -m1 -i error "$log" || echo "see $log")"
  "$python" -c 'import cv2, numpy' 2>>"$log" || skip "OpenCV was installed, but cannot be used: $(tail -n 1 "$log")"
fi
exec "$python" tests/opencv/compare.py "$@"
