// CARAFE_HD marks functions that run on the CPU and, in a CUDA build, on the GPU.
#pragma once

#if defined(__CUDACC__)
#define CARAFE_HD __host__ __device__
#else
#define CARAFE_HD
#endif
