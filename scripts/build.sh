# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh, after steps.sh and packages.sh: builds a CMake preset where needed, and sets the
# environment in which mpirun starts our ranks.

build_folder() { if [ "$1" = release ]; then echo build; else echo "build-$1"; fi; }

# As many compilers as there are cores, but no more than 1 GB each allows.
build_jobs() {
  local cores free
  cores=$(nproc)
  free=$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null)
  if [ "${free:-$cores}" -lt "$cores" ]; then cores=$free; fi
  if [ "$cores" -lt 1 ]; then echo 1; else echo "$cores"; fi
}

# build_preset PRESET LOGS TARGET...: configures if that was not done, or if packages have come since; builds what is
# out of date. Logs go to the folder LOGS.
build_preset() {
  local preset=$1 logs=$2 folder
  shift 2
  folder=$(build_folder "$preset")
  # shellcheck disable=SC2154  # of packages.sh
  if [ ! -f "$folder/build.ninja" ] || [ "$packages_installed" = 1 ]; then
    run_step "configuring $preset" "$logs/configure-$preset.log" \
      "install what it misses (scripts/packages.sh --list); or delete $folder/ if it came from elsewhere" \
      cmake --preset "$preset" || return 1
  fi
  run_step "building $preset" "$logs/build-$preset.log" \
    "the first error stands in the log above; to build by hand: ninja -C $folder $*" \
    ninja -C "$folder" -j "$(build_jobs)" "$@" || return 1
  if grep -q 'no work to do' "$logs/build-$preset.log"; then
    echo "  nothing had changed, so nothing was compiled ($folder/)"
  fi
}

# Variables for both MPIs, harmless to the other one.
set_mpi_environment() {
  if [ "$(id -u)" = 0 ]; then  # Open MPI refuses root otherwise
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_hwloc_base_binding_policy=none  # else 2 ranks get one core each, with all their threads
  export OMPI_MCA_rmaps_base_oversubscribe=1      # more ranks than cores is fine
}

# mpirun_of openmpi|mpich: the launcher's name; Debian gives each its own.
mpirun_of() {
  if command -v "mpirun.$1" >/dev/null; then echo "mpirun.$1"; else echo mpirun; fi
}
