# Warnings, sanitizers, ccache, and the machine's vector instructions.
option(CARAFE_NATIVE "Tune for the CPU of this machine" ON)

add_library(carafe_flags INTERFACE)
target_compile_options(carafe_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wno-missing-field-initializers>)
# The same bits whatever the optimiser does: no contraction of a*b+c behind our back in the reference kernels.
target_compile_options(carafe_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
# Loops with comparisons and square roots vectorise only when nobody looks at errno or at FP exception flags; values stay.
target_compile_options(carafe_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno -fno-trapping-math>)
if(CARAFE_NATIVE)
  target_compile_options(carafe_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)  # where -O1 or a sanitizer keeps it from a loop that we ask it to vectorise
  target_compile_options(carafe_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
endif()

# g++ 12 reports the standard library's own strings and moves, falsely, where -O1 or a sanitizer leaves half of them
# inlined: off in tests and sanitizer builds, on in the release of the library.
set(CARAFE_FALSE_WARNINGS "")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(CARAFE_FALSE_WARNINGS -Wno-maybe-uninitialized -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
else()  # clang sees what libstdc++'s stable_sort calls
  set(CARAFE_FALSE_WARNINGS -Wno-deprecated-declarations)
endif()

# g++ before 13.3 aligns the frames of its address sanitizer to 32 bytes and then stores 64 at once there, which traps: no
# registers of that size in such a build.
if(CARAFE_NATIVE AND CARAFE_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13.3 AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(carafe_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-mno-avx512f>)
endif()

if(CARAFE_SANITIZE)
  target_compile_options(carafe_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${CARAFE_FALSE_WARNINGS}>")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CARAFE_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${CARAFE_SANITIZE})
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(carafe_launcher ${CMAKE_SOURCE_DIR}/scripts/compile.sh ${CMAKE_SOURCE_DIR})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${carafe_launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${carafe_launcher})
endif()

find_program(LLD ld.lld)
if(LLD AND NOT CARAFE_CUDA)
  add_link_options(-fuse-ld=lld)
endif()
