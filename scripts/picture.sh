#!/usr/bin/env bash
# Draws docs/architecture.svg from docs/architecture.dot (package graphviz), and notes in it which text it shows, so
# that a test can tell a picture that has fallen behind.
set -euo pipefail
cd "$(dirname "$0")/../docs"
if ! command -v dot >/dev/null; then
  printf 'error: there is no Graphviz\n  fix: scripts/packages.sh docs\n' >&2
  exit 1
fi
dot -Tsvg architecture.dot -o architecture.svg
echo "<!-- sha256 of architecture.dot: $(sha256sum <architecture.dot | cut -d' ' -f1) -->" >>architecture.svg
