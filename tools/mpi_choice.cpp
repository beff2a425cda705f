#include "tools/mpi_choice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "carafe/base/error.h"
#include "carafe/comm/mpi_transport.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

// The program of this name in $PATH, or nothing.
std::optional<std::string> InPath(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "/usr/bin:/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t colon = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, colon - begin)) / program;
    if (access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file.string();
    begin = colon + 1;
  }
  return {};
}

std::string OutputOf(const std::string& command) {
  std::string output;
  if (FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r")) {
    std::array<char, 4096> buffer;
    while (const size_t bytes = fread(buffer.data(), 1, buffer.size(), pipe))
      output.append(buffer.data(), bytes);
    pclose(pipe);
  }
  return output;
}

// Debian gives each MPI's launcher a name of its own; elsewhere `mpirun` is asked what it is.
std::optional<std::string> FindMpirun(const std::string& mpi) {
  for (const std::string& name :
       {"mpirun." + mpi, std::string(mpi == "mpich" ? "mpiexec.hydra" : "")})
    if (!name.empty() && InPath(name)) return name;
  if (!InPath("mpirun")) return {};
  const std::string version = OutputOf("mpirun --version");
  const bool fits = version.find(mpi == "mpich" ? "HYDRA" : "Open MPI") != std::string::npos;
  return fits ? std::optional<std::string>("mpirun") : std::nullopt;
}

}  // namespace

std::pair<std::string, std::string> ChooseMpi(const std::string& asked) {
  if (!asked.empty() && asked != "openmpi" && asked != "mpich")
    throw ConfigError(fmt::format("--mpi is \"{}\"", asked), "use openmpi or mpich");
  std::string lacks;
  for (const std::string mpi : {"openmpi", "mpich"}) {
    if (!asked.empty() && asked != mpi) continue;
    const bool plugin = HasMpiPlugin(mpi);
    const auto mpirun = FindMpirun(mpi);
    if (plugin && mpirun) return {mpi, *mpirun};
    lacks += fmt::format("{}{} has no {}", lacks.empty() ? "" : "; ", mpi,
                         plugin ? "mpirun" : "plug-in of ours");
  }
  throw ConfigError(fmt::format("no MPI can start ranks here: {}", lacks),
                    "install openmpi-bin and libopenmpi-dev, or mpich and libmpich-dev, then build "
                    "Carafe again");
}

}  // namespace carafe
