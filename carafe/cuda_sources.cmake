# In a CUDA build the kernel files (kernels/ and the update rules) are compiled as CUDA, once, for CPU and GPU alike; for the
# virtual GPU (preset vgpu) by g++, with launches that queue the functor. Only they and the files that call CUDA's libraries
# get flags of their own: every other object is that of the release build, and comes out of ccache.
file(GLOB kernel_sources CONFIGURE_DEPENDS kernels/*.cpp solvers/rules/*.cpp)
list(FILTER kernel_sources EXCLUDE REGEX "_test\\.cpp$")
list(FILTER kernel_sources EXCLUDE REGEX "/(no_)?cuda[a-z_]*\\.cpp$")
# Vector code for CPUs alone, with no templates that a file compiled as CUDA could have too.
list(FILTER kernel_sources EXCLUDE REGEX
     "/(blocked_[a-z_]*|cpu_[a-z_]*|packed_gemm|small_batch|winograd[a-z_]*|convolution_algorithms|(no_)?dnnl[a-z_]*)\\.cpp$")
file(GLOB cuda_callers CONFIGURE_DEPENDS core/cuda_*.cpp kernels/cuda_*.cpp)
target_sources(carafe_plain PRIVATE ${cuda_callers})

if(CARAFE_VGPU)
  list(FILTER kernel_sources EXCLUDE REGEX "/gemm\\.cpp$")
  # Loops that run one index at a time gain nothing from -O3, and take twice as long to compile.
  set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_DEFINITIONS CARAFE_VGPU COMPILE_OPTIONS -O1)
  set_source_files_properties(${cuda_callers} PROPERTIES COMPILE_OPTIONS "-isystem;${CARAFE_CUDA_HEADERS}")
  set_source_files_properties(kernels/cuda_cublas_table.cpp PROPERTIES COMPILE_DEFINITIONS
    CARAFE_CUBLAS_FILE="libcarafe_vgpu.so")
  target_link_libraries(carafe PRIVATE carafe_vgpu)
else()
  set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_DEFINITIONS CARAFE_CUDA)
  list(FILTER kernel_sources EXCLUDE REGEX "/gemm\\.cpp$")
  set_source_files_properties(${kernel_sources} PROPERTIES LANGUAGE CUDA SKIP_PRECOMPILE_HEADERS ON)
  set_source_files_properties(${cuda_callers} PROPERTIES COMPILE_OPTIONS "-isystem;${CUDAToolkit_INCLUDE_DIRS}")
  # Without a driver the static runtime reports that there is none; cuBLAS is loaded when a GPU first needs it.
  target_link_libraries(carafe PRIVATE CUDA::cudart_static)
endif()
