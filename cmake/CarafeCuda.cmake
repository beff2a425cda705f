# CUDA: one architecture unless told otherwise, C++20 as in the rest, warnings as errors in host and device code.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80)
endif()
# The toolkit's own folder is often not on PATH.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CARAFE_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NOT CARAFE_NVCC)
    message(FATAL_ERROR "CARAFE_CUDA is ON but there is no nvcc on PATH or in /usr/local/cuda/bin.\n"
      "  fix: install the CUDA toolkit, or set CUDACXX to its nvcc, or use preset release")
  endif()
  set(CMAKE_CUDA_COMPILER ${CARAFE_NVCC})
endif()
enable_language(CUDA)
# CMake 3.25 does not know yet that nvcc 12 and later speak C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit REQUIRED)

# The host half of a kernel file must give the bits that g++ gives: same OpenMP, same contraction, same CPU.
target_compile_options(carafe_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda;--Werror=all-warnings;-Xcompiler=-fopenmp,-Wall,-Wextra,-ffp-contract=off>")
if(CARAFE_NATIVE)
  target_compile_options(carafe_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-march=native>)
endif()
