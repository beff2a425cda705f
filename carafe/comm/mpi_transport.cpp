#include "carafe/comm/mpi_transport.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <vector>

#include "carafe/base/error.h"
#include "carafe/base/log.h"
#include "carafe/comm/mpi_table.h"

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

// Over TCP a message costs some 15 us on either side, about as much as a copy of so many bytes: the
// parts of a short sum (allreduce.cpp), with their headers. Those of a long one are longer, and not
// copied.
constexpr size_t kShortMessage = (size_t{128} << 10) + 64;

class MpiTransport final : public Transport {
 public:
  MpiTransport(const CarafeMpiTable& table, const Launch& launch) : table_(table) {
    char host[256] = "";
    const int32_t error = table_.start(&rank_, &size_, &max_tag_, &any_thread_, host, sizeof host);
    if (error != 0)
      throw CommError(fmt::format("MPI ({}) does not start: {}", launch.mpi, Describe(error)),
                      "see whether a small MPI program runs under the same mpirun");
    host_ = host;
    if (launch.size == 0 || (launch.size == size_ && launch.rank == rank_)) return;
    const int32_t size = size_;
    const int32_t rank = rank_;
    table_.finish();
    throw ConfigError(
        fmt::format("{} says rank {} of {}, but {} says rank {} of {}: this is the wrong MPI, and "
                    "the ranks would train apart",
                    launch.launcher, launch.rank, launch.size, launch.mpi, rank, size),
        "start with the mpirun of the same MPI (mpirun.openmpi, mpirun.mpich), or set CARAFE_MPI "
        "to the one that the launcher belongs to");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host() const override { return host_; }
  std::string way() const override { return fmt::format("two-sided messages of {}", table_.name); }

  Request Send(int to, int tag, const void* data, size_t bytes) override {
    CheckMessage(to, tag, bytes);
    Request request = 0;
    Check(table_.send(to, tag, data, static_cast<int64_t>(bytes), &request), "send to", to);
    return request;
  }
  Request Receive(int from, int tag, void* data, size_t bytes) override {
    CheckMessage(from, tag, bytes);
    Request request = 0;
    Check(table_.receive(from, tag, data, static_cast<int64_t>(bytes), &request), "receive from",
          from);
    receives_[request] = {from, tag, bytes, nullptr};
    return request;
  }
  bool BuffersSends(int /*peer*/) const override { return true; }
  size_t ShortMessage(int /*peer*/) const override { return kShortMessage; }
  Request ReceiveShort(int from, int tag, void* data, size_t most, size_t* got) override {
    const Request request = Receive(from, tag, data, most);
    receives_[request].got = got;
    return request;
  }
  bool Done(Request request) override {
    if (request == 0) return true;
    int32_t done = 0;
    int64_t bytes = -1;
    const int32_t error = table_.test(request, &done, &bytes);
    if (error == 0 && !done) return false;
    const auto receive = receives_.find(request);
    Check(error, "exchange with", receive == receives_.end() ? -1 : receive->second.from);
    if (receive == receives_.end()) return true;
    const Expected expected = receive->second;
    receives_.erase(receive);
    if (expected.got) {
      *expected.got = static_cast<size_t>(bytes);
      return true;
    }
    if (bytes != static_cast<int64_t>(expected.bytes))
      throw CommError(fmt::format("a message of rank {} to rank {} (tag {}) has {} bytes, not {}",
                                  expected.from, rank_, expected.tag, bytes, expected.bytes),
                      "");
    return true;
  }
  bool any_thread() const override { return any_thread_ != 0; }
  void Finish() override { Check(table_.finish(), "end the work with", -1); }
  void Abort(const std::string& message) noexcept override {
    LogError("{}", message);
    table_.abort(1);
  }

 private:
  struct Expected {
    int from;
    int tag;
    size_t bytes;
    size_t* got;  // null: exactly `bytes`
  };

  void CheckMessage(int peer, int tag, size_t bytes) const {
    Ensure(peer >= 0 && peer < size_ && bytes <= kMaxBytes, "a message to nowhere, or too long");
    if (tag > max_tag_)
      throw CommError(fmt::format("this MPI has no message tags beyond {}", max_tag_),
                      "take larger buckets (--bucket_mb)");
  }
  std::string Describe(int32_t error) const {
    char text[1024] = "";
    table_.describe(error, text, sizeof text);
    return text;
  }
  void Check(int32_t error, const char* what, int peer) const {
    if (error == 0) return;
    const std::string whom = peer < 0 ? "the other ranks" : fmt::format("rank {}", peer);
    throw CommError(fmt::format("rank {} on {}: MPI cannot {} {}: {}", rank_, host_, what, whom,
                                Describe(error)),
                    "");
  }

  const CarafeMpiTable& table_;
  int32_t rank_ = 0;
  int32_t size_ = 1;
  int32_t max_tag_ = 0;
  int32_t any_thread_ = 0;
  std::string host_;
  std::map<Request, Expected> receives_;
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
  return std::make_unique<MpiTransport>(LoadPlugin(launch), launch);
}

}  // namespace carafe
