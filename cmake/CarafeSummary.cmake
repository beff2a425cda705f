message(STATUS "Carafe ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, sanitizers: [${CARAFE_SANITIZE}], CUDA: ${CARAFE_CUDA}")
message(STATUS "  oneDNN: ${dnnl_VERSION}")
message(STATUS "  BLAS: ${OPENBLAS_LIBRARY}")
message(STATUS "  MPI plug-ins: ${CARAFE_MPI_PLUGINS}")
