# Everything from the system; configuring never downloads. scripts/packages.sh knows the package of each.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Protobuf REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_package(ZLIB REQUIRED)
# The serial HDF5 by its own name where there is one: plain "hdf5" may be the flavour that needs an MPI.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial hdf5)
find_package(leveldb REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
# Faster convolutions; without it, im2col and our own Winograd kernels. Version 3 has another interface. By library and header, for
# Debian's own dnnl-config.cmake fails where there are no OpenCL headers, which nothing here needs.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl_version.h)
find_library(DNNL_LIBRARY dnnl)
set(CARAFE_DNNL_VERSION "")
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h dnnl_version REGEX "define DNNL_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9;]" "" dnnl_version "${dnnl_version}")
  list(JOIN dnnl_version . dnnl_version)
  if(dnnl_version VERSION_GREATER_EQUAL 2.6 AND dnnl_version VERSION_LESS 3)
    set(CARAFE_DNNL_VERSION ${dnnl_version})
    add_library(carafe_dnnl INTERFACE)
    target_include_directories(carafe_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
    target_link_libraries(carafe_dnnl INTERFACE ${DNNL_LIBRARY})
  endif()
endif()

# The OpenMP flavour of OpenBLAS by its own folder: the default alternative brings a second pool of threads.
find_path(OPENBLAS_INCLUDE_DIR cblas.h
  PATH_SUFFIXES openblas-openmp ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp REQUIRED)
find_library(OPENBLAS_LIBRARY openblas
  PATH_SUFFIXES openblas-openmp ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp REQUIRED)
add_library(carafe_openblas INTERFACE)
target_include_directories(carafe_openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIR})
target_link_libraries(carafe_openblas INTERFACE ${OPENBLAS_LIBRARY})
get_filename_component(OPENBLAS_DIR ${OPENBLAS_LIBRARY} DIRECTORY)
target_link_options(carafe_openblas INTERFACE -Wl,-rpath,${OPENBLAS_DIR})
