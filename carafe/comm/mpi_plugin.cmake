# One plug-in per installed MPI. Asks each MPI's own compiler wrapper for its flags; an MPI that is not there is not
# built. The library links none of them.
set(CARAFE_MPI_PLUGINS "")

# Sets <out> to what the first of the programs prints for these arguments, or to "".
function(carafe_ask_wrapper out programs)
  set(${out} "" PARENT_SCOPE)
  foreach(name ${programs})
    find_program(CARAFE_WRAPPER_${name} ${name})
    mark_as_advanced(CARAFE_WRAPPER_${name})
    if(CARAFE_WRAPPER_${name})
      execute_process(COMMAND ${CARAFE_WRAPPER_${name}} ${ARGN}
        OUTPUT_VARIABLE text ERROR_QUIET RESULT_VARIABLE code OUTPUT_STRIP_TRAILING_WHITESPACE)
      if(code EQUAL 0 AND text MATCHES "-l")
        set(${out} "${text}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# <flags> is a command line; its -I, -L and -l are what we need of it.
function(carafe_mpi_plugin name flags)
  separate_arguments(words UNIX_COMMAND "${flags}")
  set(includes ${words})
  list(FILTER includes INCLUDE REGEX "^-I")
  list(TRANSFORM includes REPLACE "^-I" "")
  set(folders ${words})
  list(FILTER folders INCLUDE REGEX "^-L")
  list(TRANSFORM folders REPLACE "^-L" "")
  set(libraries ${words})
  list(FILTER libraries INCLUDE REGEX "^-l")
  list(TRANSFORM libraries REPLACE "^-l" "")

  add_library(carafe_mpi_${name} MODULE comm/mpi_plugin.cpp)
  foreach(library ${libraries})
    find_library(CARAFE_MPI_${name}_${library} ${library} HINTS ${folders})
    mark_as_advanced(CARAFE_MPI_${name}_${library})
    target_link_libraries(carafe_mpi_${name} PRIVATE ${CARAFE_MPI_${name}_${library}})
  endforeach()
  target_include_directories(carafe_mpi_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_include_directories(carafe_mpi_${name} SYSTEM PRIVATE ${includes})
  target_compile_definitions(carafe_mpi_${name} PRIVATE
    CARAFE_MPI_NAME="${name}" OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
  target_link_libraries(carafe_mpi_${name} PRIVATE carafe_flags)
  set_target_properties(carafe_mpi_${name} PROPERTIES CXX_VISIBILITY_PRESET hidden)
  add_dependencies(carafe carafe_mpi_${name})  # building the library builds its plug-ins
  set(CARAFE_MPI_PLUGINS ${CARAFE_MPI_PLUGINS} ${name} PARENT_SCOPE)
endfunction()

carafe_ask_wrapper(carafe_openmpi_flags "mpicc.openmpi;mpicc" --showme)
if(carafe_openmpi_flags)
  carafe_mpi_plugin(openmpi "${carafe_openmpi_flags}")
endif()
carafe_ask_wrapper(carafe_mpich_flags "mpicc.mpich;mpicc" -link-info)
if(carafe_mpich_flags)
  carafe_mpi_plugin(mpich "${carafe_mpich_flags}")
endif()
# For the summary, which the top folder prints.
set(CARAFE_MPI_PLUGINS "${CARAFE_MPI_PLUGINS}" PARENT_SCOPE)
