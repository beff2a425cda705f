// Every call of MPI. Built once per installed MPI as libcarafe_mpi_<name>.so, loaded at run time by
// mpi_transport.cpp; knows nothing of the library but the table.
#include <mpi.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "carafe/comm/mpi_table.h"

namespace {

// Our own errors; MPI's codes are positive.
constexpr int32_t kNoThreads = -1;
constexpr int32_t kTooLong = -2;
constexpr int32_t kAgain = -3;

struct Open {
  bool is_receive = false;
  bool done = false;
  bool asked = false;  // since MPI last worked
  int32_t error = 0;
  int64_t bytes = -1;
};

struct State {
  MPI_Comm comm = MPI_COMM_NULL;
  bool ours = false;                  // we started MPI, so we end it
  bool ended = false;                 // without MPI_Finalize, see LeaveHydra
  std::vector<MPI_Request> requests;  // request n is requests[n - 1]: null if done, or none
  std::vector<Open> open;             // of the same
  std::vector<int> places;            // scratch of Work, as the next
  std::vector<MPI_Status> statuses;
  std::vector<uint64_t> free_ids;  // of open
};

State& TheState() {
  static State state;
  return state;
}

uint64_t Keep(MPI_Request request, bool is_receive) {
  State& state = TheState();
  if (state.free_ids.empty()) {
    state.open.emplace_back();
    state.requests.push_back(MPI_REQUEST_NULL);
    state.free_ids.push_back(state.open.size());
  }
  const uint64_t id = state.free_ids.back();
  state.free_ids.pop_back();
  state.open[id - 1] = {.is_receive = is_receive};
  state.requests[id - 1] = request;
  return id;
}

// Over TCP, Open MPI asks the receiver before it sends more than 64 KB, and MPICH (with UCX) before
// some 20 KB: another round trip. A short message (mpi_transport.cpp) goes at once instead, and UCX
// has room to take one in one piece, unless mpirun or the environment says otherwise.
void SendAtOnce() {
  const auto set = [](std::initializer_list<std::pair<const char*, const char*>> variables) {
    for (const auto& [name, value] : variables)
      if (std::getenv(name)) return;
    for (const auto& [name, value] : variables) setenv(name, value, 1);
  };
#ifdef OPEN_MPI
  set({{"OMPI_MCA_btl_tcp_max_send_size", "135168"}, {"OMPI_MCA_btl_tcp_eager_limit", "135168"}});
#else
  set({{"UCX_RNDV_THRESH", "256k"}, {"UCX_TCP_RX_SEG_SIZE", "160k"}});
#endif
}

int32_t Start(int32_t* rank, int32_t* size, int32_t* max_tag, int32_t* any_thread, char* host,
              int32_t host_bytes) {
  State& state = TheState();
  int flag = 0;
  int error = MPI_Finalized(&flag);
  if (error != MPI_SUCCESS) return error;
  if (flag || state.ended) return kAgain;
  error = MPI_Initialized(&flag);
  if (error != MPI_SUCCESS) return error;
  int level = MPI_THREAD_SINGLE;
  if (flag) {  // by someone else in this process, on another thread
    error = MPI_Query_thread(&level);
    if (error == MPI_SUCCESS && level < MPI_THREAD_MULTIPLE) return kNoThreads;
  } else {
    state.ours = true;
    SendAtOnce();
    error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    if (error == MPI_SUCCESS && level < MPI_THREAD_FUNNELED) return kNoThreads;
  }
  if (error != MPI_SUCCESS) return error;
  *any_thread = level >= MPI_THREAD_SERIALIZED;
  error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (error != MPI_SUCCESS) return error;
  error = MPI_Comm_dup(MPI_COMM_WORLD, &state.comm);
  if (error != MPI_SUCCESS) return error;
  error = MPI_Comm_set_errhandler(state.comm, MPI_ERRORS_RETURN);
  if (error != MPI_SUCCESS) return error;
  int value = 0;
  if ((error = MPI_Comm_rank(state.comm, &value)) != MPI_SUCCESS) return error;
  *rank = value;
  if ((error = MPI_Comm_size(state.comm, &value)) != MPI_SUCCESS) return error;
  *size = value;
  int* bound = nullptr;
  error = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
  if (error != MPI_SUCCESS) return error;
  *max_tag = flag ? *bound : 32767;  // the least that MPI promises
  char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length = 0;
  if ((error = MPI_Get_processor_name(name, &length)) != MPI_SUCCESS) return error;
  std::snprintf(host, static_cast<size_t>(host_bytes), "%s", name);
  return 0;
}

int32_t Send(int32_t to, int32_t tag, const void* data, int64_t bytes, uint64_t* request) {
  if (bytes < 0 || bytes > INT_MAX) return kTooLong;
  MPI_Request r = MPI_REQUEST_NULL;
  const int error =
      MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, TheState().comm, &r);
  if (error != MPI_SUCCESS) return error;
  *request = Keep(r, false);
  return 0;
}

int32_t Receive(int32_t from, int32_t tag, void* data, int64_t bytes, uint64_t* request) {
  if (bytes < 0 || bytes > INT_MAX) return kTooLong;
  MPI_Request r = MPI_REQUEST_NULL;
  const int error =
      MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, TheState().comm, &r);
  if (error != MPI_SUCCESS) return error;
  *request = Keep(r, true);
  return 0;
}

// Lets MPI work once, and notes which requests are done.
int32_t Work() {
  State& state = TheState();
  for (Open& open : state.open) open.asked = false;
  state.places.resize(state.requests.size());
  state.statuses.resize(state.requests.size());
  int count = 0;
  const int error = MPI_Testsome(static_cast<int>(state.requests.size()), state.requests.data(),
                                 &count, state.places.data(), state.statuses.data());
  if (error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) return error;
  for (int i = 0; i < count; ++i) {  // none if count is MPI_UNDEFINED, which is negative
    Open& open = state.open[static_cast<size_t>(state.places[static_cast<size_t>(i)])];
    const MPI_Status& status = state.statuses[static_cast<size_t>(i)];
    open.done = true;
    if (error == MPI_ERR_IN_STATUS) open.error = status.MPI_ERROR;
    int bytes = 0;
    if (open.error == 0 && open.is_receive) open.error = MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (open.is_receive) open.bytes = bytes;
  }
  return 0;
}

// A look at MPI is dear, over TCP most of all: one answers a question about every open request, and
// the next follows when one is asked about again.
int32_t Test(uint64_t request, int32_t* done, int64_t* bytes) {
  State& state = TheState();
  Open& open = state.open[request - 1];
  if (!open.done && open.asked) {
    const int32_t error = Work();
    if (error != 0) return error;
  }
  open.asked = true;
  *done = open.done;
  *bytes = open.bytes;
  if (open.done) state.free_ids.push_back(request);
  return open.error;
}

// Sends a command of Hydra's own protocol. False: this is not Hydra.
bool SendToHydra([[maybe_unused]] const char* word) {
#ifdef MPICH_VERSION
  const char* text = std::getenv("PMI_FD");
  if (!text || !std::getenv("MPI_LOCALNRANKS")) return false;
  const size_t length = std::strlen(word);
  return write(std::atoi(text), word, length) == static_cast<ssize_t>(length);
#else
  return false;
#endif
}

// MPI_Finalize of MPICH 4.0 over UCX waits forever in some runs (decision 25): a rank that waits
// for its endpoints to close needs others to work on them, and those already sit in a barrier of
// the process manager. By the time of Finish all messages have arrived and nothing is left to do
// but to tell Hydra, by its own protocol, that this rank ends normally. False: this is not Hydra.
bool LeaveHydra() {
  if (!SendToHydra("cmd=finalize\n")) return false;
  const int manager = std::atoi(std::getenv("PMI_FD"));
  pollfd waiting{manager, POLLIN, 0};
  char answer[256];
  return poll(&waiting, 1, 2000) != 1 || read(manager, answer, sizeof answer) >= 0;
}

int32_t Finish() {
  State& state = TheState();
  if (state.ours && LeaveHydra()) {
    state.ended = true;
    return 0;
  }
  const int error = MPI_Comm_free(&state.comm);
  if (error != MPI_SUCCESS || !state.ours) return error;
  return MPI_Finalize();
}

// MPI_Abort of MPICH 4.0 over UCX works on its endpoints first, forever if a peer hangs or is
// cut off; Hydra alone ends all ranks, hanging ones too.
void Abort(int32_t exit_code) {
  char word[64];
  std::snprintf(word, sizeof word, "cmd=abort exitcode=%d\n", static_cast<int>(exit_code));
  if (SendToHydra(word)) _exit(exit_code);
  if (TheState().comm != MPI_COMM_NULL) MPI_Abort(TheState().comm, exit_code);
}

void Describe(int32_t error, char* text, int32_t text_bytes) {
  char words[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  if (error == kNoThreads) {
    std::strcpy(words, "MPI does not allow a communication thread of our own");
  } else if (error == kTooLong) {
    std::strcpy(words, "a message has more than 2^31 - 1 bytes");
  } else if (error == kAgain) {
    std::strcpy(words, "MPI was started and ended before in this process, and cannot start again");
  } else if (MPI_Error_string(error, words, &length) != MPI_SUCCESS) {
    std::snprintf(words, sizeof words, "MPI error %d", static_cast<int>(error));
  }
  std::snprintf(text, static_cast<size_t>(text_bytes), "%s", words);
}

const CarafeMpiTable kTable = {
    CARAFE_MPI_TABLE_VERSION, CARAFE_MPI_NAME, Start, Send, Receive, Test, Finish, Abort, Describe};

}  // namespace

extern "C" __attribute__((visibility("default"))) const CarafeMpiTable* carafe_mpi_table() {
  return &kTable;
}
