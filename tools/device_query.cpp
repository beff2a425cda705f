// carafe device_query: what this build can compute on here.
#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "carafe/core/device.h"
#include "carafe/core/gpu_status.h"
#include "carafe/kernels/gpu_libraries.h"
#include "tools/command.h"

namespace carafe {
namespace {

int Query(const std::string& gpu) {
  const int count = CudaDeviceCount();
  fmt::print("CPU: {} cores online\n", sysconf(_SC_NPROCESSORS_ONLN));
  if (count == 0) {
    const GpuStatus status = GetGpuStatus();
    fmt::print("GPU: none that can be used: {}\n  fix: {}\n", status.problem, status.fix);
  }
  for (int i = 0; i < count; ++i) fmt::print("{}\n", CudaDevice(i).name());
  for (const GpuLibrary& library : GpuLibraries()) {
    fmt::print("{}: {}\n", library.name,
               library.version.empty() ? library.problem : library.version);
  }
  if (!gpu.empty() && gpu != "all")
    CudaDevice(std::atoi(gpu.c_str()));  // throws if it is not there
  return 0;
}

const RegisterCommand kRegistered{
    {.name = "device_query",
     .summary = "List the devices that can be used.",
     .examples = "  carafe device_query\n  carafe device_query --gpu=all",
     .prepare = [](CLI::App& app) {
       auto gpu = std::make_shared<std::string>();
       app.add_option("--gpu", *gpu, "a GPU's number, or all");
       return [gpu] { return Query(*gpu); };
     }}};

}  // namespace
}  // namespace carafe
