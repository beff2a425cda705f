#!/bin/sh
# What CMake puts before every compiler command where ccache is there: scripts/compile.sh BASE_FOLDER COMPILER ARGUMENTS...
# The base folder lets one clone use what another has compiled; the precompiled header of protobuf's messages needs the sloppiness.
# A precompiled header that is made over an older one is known to ccache by that older one, not by what it includes, so it may bring
# back another's: the old one goes first.
base=$1
shift
previous='' output='' header=''
for argument in "$@"; do
  [ "$previous" != -o ] || output=$argument
  [ "$previous $argument" != '-x c++-header' ] || header=1
  previous=$argument
done
[ -z "$header" ] || rm -f "$output"
CCACHE_BASEDIR=$base CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime \
  exec ccache "$@"
