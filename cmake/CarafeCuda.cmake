# CMake 3.25 ignores CMAKE_CUDA_STANDARD 20 with nvcc 13, hence the flag by hand.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80)
endif()
enable_language(CUDA)
string(APPEND CMAKE_CUDA_FLAGS " -std=c++20 --extended-lambda -Xcompiler=-fopenmp")
find_package(CUDAToolkit REQUIRED)
