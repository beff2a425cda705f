# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh, after steps.sh, packages.sh and build.sh: the environment build/venv with what
# the Python package needs, and the package's build.

# make_venv LOG REQUIREMENTS...: creates it once, and again asks pip only when a file of requirements has changed.
# Returns 1 if that fails: PyPI cannot be reached, or there is no venv.
make_venv() {
  local log=$1 sum file files=()
  shift
  sum=$(cat "$@" | cksum)
  [ "$(cat build/venv/carafe.sum 2>/dev/null)" != "$sum" ] || return 0
  for file in "$@"; do files+=(-r "$file"); done
  run_logged 'Python packages into build/venv' "$log" bash -c \
    'python3 -m venv build/venv && build/venv/bin/python -m pip install --disable-pip-version-check "$@"' - \
    "${files[@]}" || return 1
  printf '%s' "$sum" >build/venv/carafe.sum
}

# build_python PRESET LOGS TARGET...: configures again if the build folder does not know Python yet.
build_python() {
  local preset=$1 logs=$2 folder
  shift 2
  folder=$(build_folder "$preset")
  if [ -f "$folder/build.ninja" ] && ! ninja -C "$folder" -t query carafe_python >/dev/null 2>&1; then
    run_step "configuring $preset for Python" "$logs/configure-python-$preset.log" \
      'install the headers of Python (Debian: python3-dev), then run this again' cmake --preset "$preset" || return 1
  fi
  build_preset "$preset" "$logs" "$@" || return 1
}
