// The border between the library, which links no MPI, and the MPI plug-ins: plain C, so that a
// plug-in may be built by another compiler. Functions return 0, or an error code for `describe`.
#pragma once

#include <cstdint>

extern "C" {

#define CARAFE_MPI_TABLE_VERSION 2
#define CARAFE_MPI_ENTRY "carafe_mpi_table"  // const CarafeMpiTable* carafe_mpi_table(void)

struct CarafeMpiTable {
  int32_t version;
  const char* name;  // "openmpi" or "mpich"
  // Starts MPI on the calling thread; all other functions are called by that thread, or by any, one
  // at a time, where `any_thread` is not 0.
  int32_t (*start)(int32_t* rank, int32_t* size, int32_t* max_tag, int32_t* any_thread, char* host,
                   int32_t host_bytes);
  int32_t (*send)(int32_t to, int32_t tag, const void* data, int64_t bytes, uint64_t* request);
  int32_t (*receive)(int32_t from, int32_t tag, void* data, int64_t bytes, uint64_t* request);
  // A done request is forgotten. `bytes` is what a receive got, -1 for a send.
  int32_t (*test)(uint64_t request, int32_t* done, int64_t* bytes);
  int32_t (*finish)(void);
  void (*abort)(int32_t exit_code);
  void (*describe)(int32_t error, char* text, int32_t text_bytes);
};

}  // extern "C"
