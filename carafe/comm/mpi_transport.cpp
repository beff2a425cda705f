#include "carafe/comm/mpi_transport.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/mailbox.h"
#include "carafe/comm/mpi_table.h"
#include "carafe/comm/request_table.h"

namespace carafe {
namespace {

std::string PackagesOf(const std::string& mpi) {
  return mpi == "openmpi" ? "libopenmpi-dev and openmpi-bin" : "libmpich-dev and mpich";
}

// $CARAFE_PLUGIN_DIR, then the folder of this library.
std::vector<std::string> PluginFolders() {
  std::vector<std::string> folders;
  if (const char* folder = std::getenv("CARAFE_PLUGIN_DIR")) folders.emplace_back(folder);
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&MakeMpiTransport), &info) != 0 && info.dli_fname)
    folders.push_back(std::filesystem::path(info.dli_fname).parent_path().string());
  return folders;
}

// Stays loaded until the process ends: no MPI survives being unloaded. RTLD_GLOBAL, because Open
// MPI's own plug-ins look for the symbols of libmpi, which comes with ours.
const CarafeMpiTable& LoadPlugin(const Launch& launch) {
  const std::string path = FindMpiPlugin(launch, PluginFolders());
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* reason = dlerror();
    throw ConfigError(
        fmt::format("the MPI plug-in {} cannot be loaded: {}", path,
                    reason ? reason : "no reason given"),
        fmt::format("install the packages {}, then build Carafe again", PackagesOf(launch.mpi)));
  }
  using Entry = const CarafeMpiTable* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, CARAFE_MPI_ENTRY));
  const CarafeMpiTable* table = entry ? entry() : nullptr;
  if (!table || table->version != CARAFE_MPI_TABLE_VERSION)
    throw ConfigError(fmt::format("the MPI plug-in {} is of another version of Carafe", path),
                      "build Carafe again, plug-ins included");
  return *table;
}

// Over TCP a message costs about 15 us on either side, as much as a copy of this many bytes: the
// parts of a short sum (allreduce.cpp) with their headers. Those of a long sum are longer, and are
// not copied.
constexpr size_t kShortMessage = (size_t{128} << 10) + 64;

std::string Describe(const CarafeMpiTable& table, int32_t error) {
  char text[1024] = "";
  table.describe(error, text, sizeof text);
  return text;
}

// What MPI says of this process.
struct StartedMpi {
  RankIdentity identity;
  int32_t max_tag = 0;
  bool any_thread = false;
};

StartedMpi Start(const CarafeMpiTable& table, const Launch& launch) {
  StartedMpi mpi;
  int32_t rank = 0, size = 1, any_thread = 0;
  char host[256] = "";
  const int32_t error = table.start(&rank, &size, &mpi.max_tag, &any_thread, host, sizeof host);
  if (error != 0)
    throw CommError(fmt::format("MPI ({}) does not start: {}", launch.mpi, Describe(table, error)),
                    "see whether a small MPI program runs under the same mpirun");
  if (launch.size != 0 && (launch.size != size || launch.rank != rank)) {
    table.finish();
    throw ConfigError(
        fmt::format("{} says rank {} of {}, but {} says rank {} of {}: this is the wrong MPI, and "
                    "the ranks would train apart",
                    launch.launcher, launch.rank, launch.size, launch.mpi, rank, size),
        "start with the mpirun of the same MPI (mpirun.openmpi, mpirun.mpich), or set CARAFE_MPI "
        "to the one that the launcher belongs to");
  }
  mpi.identity = {rank, size, host};
  mpi.any_thread = any_thread != 0;
  return mpi;
}

class MpiTransport final : public Transport, private ShortMessages {
 public:
  MpiTransport(const CarafeMpiTable& table, const StartedMpi& mpi)
      : Transport(mpi.identity, {.backend = fmt::format("two-sided messages of {}", table.name),
                                 .any_thread = mpi.any_thread,
                                 .short_messages = this}),
        table_(table),
        max_tag_(mpi.max_tag) {}
  LinkTraits link(int /*peer*/) const override {
    return {.buffers_sends = true, .short_message_bytes = kShortMessage};
  }
  Request Send(int to, int tag, const void* data, size_t bytes) override {
    CheckMessage(to, tag, bytes);
    uint64_t number = 0;
    Check(table_.send(to, tag, data, static_cast<int64_t>(bytes), &number), "send to", to);
    return requests_.Begin({.number = number});
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    return ReceiveUpTo(from, tag, data, bytes, nullptr);
  }
  Request ReceiveUpTo(int from, int tag, void* data, size_t max_bytes, size_t* received) override {
    CheckMessage(from, tag, max_bytes);
    uint64_t number = 0;
    Check(table_.receive(from, tag, data, static_cast<int64_t>(max_bytes), &number), "receive from",
          from);
    return requests_.Begin({.number = number,
                            .from = from,
                            .receive = {.tag = tag, .bytes = max_bytes, .received = received}});
  }
  bool Done(Request request) override {
    if (request == 0) return true;
    const State state = requests_[request];
    int32_t done = 0;
    int64_t bytes = -1;
    const int32_t error = table_.test(state.number, &done, &bytes);
    if (error == 0 && !done) return false;
    Check(error, "exchange with", state.from);
    requests_.Forget(request);
    if (state.from < 0) return true;
    const auto size = static_cast<size_t>(bytes);
    if (!state.receive.Accepts(size))
      throw CommError(
          SizeMismatch(state.from, rank(), state.receive.tag, size, state.receive.bytes), "");
    if (state.receive.received) *state.receive.received = size;
    return true;
  }
  bool TakeCompletions() override { return false; }  // only Done knows, request by request
  void Finish() override { Check(table_.finish(), "end the work with", -1); }
  void Abort(const std::string& message) noexcept override {
    LogError("{}", message);
    table_.abort(1);
  }

 private:
  struct State {
    uint64_t number = 0;  // of the plug-in
    int from = -1;        // the sender; -1: this is a send
    PendingReceive receive = {};
  };

  void CheckMessage(int peer, int tag, size_t bytes) const {
    Ensure(peer >= 0 && peer < size() && bytes <= kMaxBytes, "a message to nowhere, or too long");
    if (tag > max_tag_)
      throw CommError(fmt::format("this MPI has no message tags beyond {}", max_tag_),
                      "use larger buckets (--bucket_mb)");
  }
  void Check(int32_t error, const char* what, int peer) const {
    if (error == 0) return;
    const std::string whom = peer < 0 ? "the other ranks" : fmt::format("rank {}", peer);
    throw CommError(fmt::format("rank {} on {}: MPI cannot {} {}: {}", rank(), host(), what, whom,
                                Describe(table_, error)),
                    "");
  }

  const CarafeMpiTable& table_;
  const int32_t max_tag_;
  RequestTable<State> requests_;
};

}  // namespace

std::string FindMpiPlugin(const Launch& launch, const std::vector<std::string>& folders) {
  std::string looked;
  for (const std::string& folder : folders) {
    const std::string path =
        (std::filesystem::path(folder) / fmt::format("libcarafe_mpi_{}.so", launch.mpi)).string();
    if (std::filesystem::exists(path)) return path;
    looked += (looked.empty() ? "" : ", ") + path;
  }
  throw ConfigError(
      fmt::format("this process was started by {}, but the plug-in for that MPI is not there "
                  "(looked for {})",
                  launch.launcher, looked),
      fmt::format("install the packages {}, then build Carafe again; or start with the mpirun of "
                  "an MPI whose plug-in is there",
                  PackagesOf(launch.mpi)));
}

bool HasMpiPlugin(const std::string& mpi) {
  for (const std::string& folder : PluginFolders())
    if (std::filesystem::exists(std::filesystem::path(folder) /
                                fmt::format("libcarafe_mpi_{}.so", mpi)))
      return true;
  return false;
}

void AbortStart(const Launch& launch) { LoadPlugin(launch).abort(1); }

std::unique_ptr<Transport> MakeMpiTransport(const Launch& launch) {
  const CarafeMpiTable& table = LoadPlugin(launch);
  return std::make_unique<MpiTransport>(table, Start(table, launch));
}

}  // namespace carafe
