# In a CUDA build the kernel files (kernels/ and the update rules) are compiled as CUDA, once, for CPU and GPU alike. Only
# they and the two files that call CUDA's libraries get flags of their own: every other object is that of the release
# build, and comes out of ccache.
file(GLOB kernel_sources CONFIGURE_DEPENDS kernels/*.cpp solvers/rules/*.cpp)
list(FILTER kernel_sources EXCLUDE REGEX "_test\\.cpp$")
list(FILTER kernel_sources EXCLUDE REGEX "/(no_)?cuda[a-z_]*\\.cpp$")
# Vector code for CPUs alone, with no templates that a file compiled as CUDA could have too.
list(FILTER kernel_sources EXCLUDE REGEX
     "/(blocked_[a-z_]*|cpu_[a-z_]*|packed_gemm|small_batch|winograd[a-z_]*|convolution_algorithms|(no_)?dnnl[a-z_]*)\\.cpp$")
set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_DEFINITIONS CARAFE_CUDA)
list(FILTER kernel_sources EXCLUDE REGEX "/gemm\\.cpp$")
set_source_files_properties(${kernel_sources} PROPERTIES LANGUAGE CUDA SKIP_PRECOMPILE_HEADERS ON)

set(cuda_callers core/cuda_device.cpp kernels/cuda_gemm.cpp)
target_sources(carafe_plain PRIVATE ${cuda_callers})
set_source_files_properties(${cuda_callers} PROPERTIES COMPILE_OPTIONS "-isystem;${CUDAToolkit_INCLUDE_DIRS}")
target_link_libraries(carafe PRIVATE CUDA::cudart CUDA::cublas)
