// Layers written in Python: loads the plug-in that runs them at the first one.
#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

#include "carafe/layers/python_plugin.h"

namespace carafe {
namespace {

constexpr char kLibrary[] = "libcarafe_python.so";
// Beside the plug-in: lines such as libpython=/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0
constexpr char kSettings[] = "carafe_python.conf";

std::atomic<const PythonPlugin*> plugin{nullptr};

// $CARAFE_PLUGIN_DIR, then the folder of this library.
std::filesystem::path FindFolder() {
  std::vector<std::filesystem::path> folders;
  if (const char* folder = std::getenv("CARAFE_PLUGIN_DIR")) folders.emplace_back(folder);
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&SetPythonPlugin), &info) != 0 && info.dli_fname != nullptr) {
    folders.push_back(std::filesystem::absolute(info.dli_fname).parent_path());
  }
  std::error_code error;
  for (const auto& folder : folders) {
    if (std::filesystem::exists(folder / kLibrary, error)) return folder;
  }
  return {};
}

std::string Setting(const std::filesystem::path& folder, const std::string& name) {
  std::ifstream file(folder / kSettings);
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
  }
  return "";
}

void* Open(const LayerSpec& spec, const std::string& path, int flags, const char* fix) {
  void* library = dlopen(path.c_str(), flags);
  if (library != nullptr) return library;
  const char* reason = dlerror();
  spec.Fail("type",
            fmt::format("{} cannot be loaded: {}", path, reason ? reason : "no reason given"), fix);
}

// A process that is not Python itself gets Python's library first, for all to see: Python's own
// modules look for its symbols.
const PythonPlugin& Load(const LayerSpec& spec) {
  const std::filesystem::path folder = FindFolder();
  spec.Check(!folder.empty(), "type", "this Carafe was built without Python",
             "build it with ./quickstart.sh --python");
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized") == nullptr) {
    const std::string libpython = Setting(folder, "libpython");
    spec.Check(!libpython.empty(), "type",
               "the Python that Carafe was built with has no shared library",
               "run the net from Python (python/train.py), or build with a Python that was made "
               "with --enable-shared");
    Open(spec, libpython, RTLD_NOW | RTLD_GLOBAL, "install the Python that Carafe was built with");
  }
  Open(spec, (folder / kLibrary).string(), RTLD_NOW, "build Carafe again, its plug-ins included");
  spec.Check(plugin != nullptr, "type", "the Python plug-in belongs to another Carafe",
             "build Carafe again, its plug-ins included");
  return *plugin;
}

template <typename T>
std::unique_ptr<Layer<T>> Make(const LayerSpec& spec) {
  if constexpr (std::is_same_v<T, float>) {
    const PythonPlugin* loaded = plugin;
    return (loaded != nullptr ? *loaded : Load(spec)).make(spec);
  } else {
    spec.Fail("type", "layers written in Python compute in float only", "use a net of floats");
  }
}

const bool kRegistered = [] {
  LayerRegistry::Instance().Add(
      "Python", {{.type = "Python", .summary = "A class written in Python.", .in_place = true},
                 Make<float>,
                 Make<double>});
  return true;
}();

}  // namespace

void SetPythonPlugin(const PythonPlugin* loaded) { plugin = loaded; }

}  // namespace carafe
