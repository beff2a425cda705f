# cmake --install: the program, the library with its MPI plug-ins, headers, and what find_package(Carafe) needs. The
# result can be moved: programs find the library, and the library its plug-ins, by their own place.
include(CMakePackageConfigHelpers)
set(CARAFE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Carafe)

file(RELATIVE_PATH carafe_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
# The same RUNPATH in the build as installed. Otherwise CMake ends that of the build with a colon, to replace it later, and
# an empty entry is the current folder: a library planted there would be loaded (tests/cli/install.py).
set_target_properties(carafe PROPERTIES
  INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
install(TARGETS carafe EXPORT CarafeTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(plugin ${CARAFE_MPI_PLUGINS})
  set_target_properties(carafe_mpi_${plugin} PROPERTIES
    INSTALL_RPATH_USE_LINK_PATH ON BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS carafe_mpi_${plugin} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()

if(TARGET carafe_program)
  set_target_properties(carafe_program PROPERTIES
    INSTALL_RPATH "$ORIGIN/${carafe_bin_to_lib};$ORIGIN/../lib" BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS carafe_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # Other names of the program, made beside it in the build.
  install(CODE "
    file(GLOB links LIST_DIRECTORIES false \"${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/*\")
    foreach(link IN LISTS links)
      if(IS_SYMLINK \"\${link}\")
        file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\" TYPE FILE FILES \"\${link}\")
      endif()
    endforeach()")
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/carafe/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/carafe
  FILES_MATCHING PATTERN "*.h")
# Beside messages.h, which includes it.
install(FILES ${PROJECT_BINARY_DIR}/carafe/carafe.pb.h ${PROJECT_BINARY_DIR}/carafe/fork_messages.pb.h
  ${PROJECT_BINARY_DIR}/carafe/training_state.pb.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/carafe/proto)

install(EXPORT CarafeTargets NAMESPACE Carafe:: DESTINATION ${CARAFE_CMAKE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/CarafeConfig.cmake.in
  ${PROJECT_BINARY_DIR}/CarafeConfig.cmake INSTALL_DESTINATION ${CARAFE_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/CarafeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/CarafeConfig.cmake ${PROJECT_BINARY_DIR}/CarafeConfigVersion.cmake
  DESTINATION ${CARAFE_CMAKE_DIR})
