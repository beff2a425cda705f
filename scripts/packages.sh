#!/usr/bin/env bash
# The Debian packages that Carafe needs, and why; installs those that are missing.
#   scripts/packages.sh [--no-install] [GROUP...]   groups: build openmpi mpich tests cluster python fuzz data docs
#                                                   tidy; default: all but cluster, python, fuzz, docs and tidy
#   scripts/packages.sh --list                      prints every package with its reason
# --no-install only says what is missing. Sourced, it gives the function ensure_packages with the same arguments.

# group|package|why
carafe_packages='
build|g++|compiles the library (C++20)
build|cmake|configures the build
build|ninja-build|runs the build
build|ccache|a second build takes seconds
build|lld|links faster than the default linker
build|pkg-config|finds LMDB, HDF5 and xxHash
build|libprotobuf-dev|reads and writes prototxt, caffemodel, solverstate
build|protobuf-compiler|makes the message classes out of carafe.proto
build|libfmt-dev|formats texts
build|libspdlog-dev|writes the log
build|nlohmann-json3-dev|reads and writes JSON
build|libcli11-dev|parses the command line
build|liblmdb-dev|databases of training images
build|libhdf5-dev|weights, snapshots and data in HDF5 files (the serial library)
build|libleveldb-dev|databases of training images, the older kind
build|libsnappy-dev|named to the linker by the build files of LevelDB, whose package leaves it out
build|libjpeg62-turbo-dev|decodes and encodes JPEG
build|libpng-dev|decodes and encodes PNG
build|libxxhash-dev|hashes that compare weights between ranks
build|zlib1g-dev|reads compressed data sets
build|libopenblas-openmp-dev|matrix products, in the threads of OpenMP
build|libdnnl-dev|direct convolutions in blocked formats (oneDNN)
openmpi|openmpi-bin|mpirun: starts the ranks
openmpi|libopenmpi-dev|builds the plug-in for Open MPI
mpich|mpich|the other mpirun
mpich|libmpich-dev|builds the plug-in for MPICH
tests|libgtest-dev|unit tests
tests|libgmock-dev|matchers of the unit tests
tests|clang-format-14|checks the format, with the version that wrote it
tests|python3|checks include arrows, counts results
tests|python3-venv|OpenCV, a second reader of our files, in an environment of its own
cluster|iproute2|makes hosts out of network namespaces (tests/cluster)
cluster|iperf3|measures the cables between them
python|python3|runs the Python package
python|python3-dev|builds its module
python|python3-venv|keeps its packages in build/venv
python|graphviz|draws nets (caffe.draw, draw_net.py)
fuzz|clang-19|compiles the fuzzers
fuzz|libclang-rt-19-dev|libFuzzer and the sanitizers of that compiler
fuzz|libomp-19-dev|OpenMP of that compiler
data|dataset-fashion-mnist|real pictures for examples/fashion_mnist
docs|graphviz|draws the picture of docs/architecture.md again
tidy|clang-tidy-19|scripts/tidy.sh (14 does not know std::source_location)
'

# 1 after ensure_packages has installed something: then configure again.
# shellcheck disable=SC2034
packages_installed=0

packages_of() {  # GROUP...: lines package|why
  local group
  for group in "$@"; do
    printf '%s' "$carafe_packages" | awk -F'|' -v g="$group" '$1 == g { print $2 "|" $3 }'
  done
}

# missing_packages GROUP...: those of packages_of that dpkg has not installed.
missing_packages() {
  local all there line
  all=$(packages_of "$@")
  # shellcheck disable=SC2086,SC2046
  there=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' $(cut -d'|' -f1 <<<"$all") 2>/dev/null || true)
  while IFS= read -r line; do
    grep -qxF "${line%%|*} installed" <<<"$there" || printf '%s\n' "$line"
  done <<<"$all"
}

# install_packages PACKAGE...: as root, or through sudo. Called in a step, so its output goes to the log.
install_packages() {
  export DEBIAN_FRONTEND=noninteractive
  local wait='-oDPkg::Lock::Timeout=300'
  "${as_root[@]}" apt-get "$wait" update || return 1
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get "$wait" install -y --no-install-recommends "$@"
}

# become_root COMMAND: sets as_root, asking for sudo's password now if it will be needed; explains if it cannot.
become_root() {
  as_root=()
  [ "$(id -u)" != 0 ] || return 0
  if ! command -v sudo >/dev/null; then
    complain 'packages are missing, you are not root, and there is no sudo' "as root: $1"
    return 1
  fi
  as_root=(sudo)
  if ! sudo -n true 2>/dev/null; then
    if [ ! -t 0 ] || ! sudo -v; then
      complain 'packages are missing, and sudo did not let this user install them' "as root: $1"
      return 1
    fi
  fi
}

ensure_packages() {
  local install=1 groups=() missing=() line
  for line in "$@"; do
    if [ "$line" = --no-install ]; then install=0; else groups+=("$line"); fi
  done
  if ! command -v dpkg-query >/dev/null; then
    [ "$install" = 0 ] && return 0
    complain 'this is not a Debian system: packages cannot be installed here' \
      'install what scripts/packages.sh --list names, then use --no-install'
    return 1
  fi
  mapfile -t missing < <(missing_packages "${groups[@]}")
  if [ ${#missing[@]} = 0 ]; then
    echo "packages: all that is needed is there (${groups[*]})"
    return 0
  fi
  if [ "$install" = 1 ]; then echo "packages to install:"; else echo "packages that are missing:"; fi
  for line in "${missing[@]}"; do printf '  %-24s %s\n' "${line%%|*}" "${line#*|}"; done
  local names=("${missing[@]%%|*}")
  local command="apt-get update && apt-get install -y --no-install-recommends ${names[*]}"
  if [ "$install" = 0 ]; then
    echo "  going on without them, as --no-install asks; what Debian has for them: $command"
    return 0
  fi
  if ! command -v apt-get >/dev/null; then
    complain 'there is no apt-get to install them with' 'install them by other means, then use --no-install'
    return 1
  fi
  become_root "$command" || return 1
  run_step "installing ${#names[@]} packages" build/logs/packages.log \
    "see whether apt can reach its package mirror, then, as root: $command" \
    install_packages "${names[@]}" || return 1
  # shellcheck disable=SC2034
  packages_installed=1
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  cd "$(dirname "$0")/.."
  source scripts/steps.sh
  case "${1:-}" in
  -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0" ;;
  --list) printf '%s' "$carafe_packages" | awk -F'|' 'NF == 3 { printf "%-8s %-24s %s\n", $1, $2, $3 }' ;;
  *)
    flags=() groups=()
    for argument in "$@"; do
      case $argument in
      --no-install) flags+=("$argument") ;;
      build | openmpi | mpich | tests | cluster | python | fuzz | data | docs | tidy) groups+=("$argument") ;;
      *) complain "there is no package group \"$argument\"" 'use build, openmpi, mpich, tests, cluster, python, fuzz, data, docs or tidy'; exit 2 ;;
      esac
    done
    [ ${#groups[@]} != 0 ] || groups=(build openmpi mpich tests data)
    ensure_packages "${flags[@]}" "${groups[@]}"
    ;;
  esac
fi
