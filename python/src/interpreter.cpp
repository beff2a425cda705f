#include "python/src/interpreter.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pybind11/embed.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "carafe/base/error.h"

namespace py = pybind11;

namespace carafe::python {
namespace {

bool embedded = false;

// carafe_python.conf beside this library: the interpreter to take the place of, unless
// $CARAFE_PYTHON names another one (of the same version), and the folders of the package, relative
// ones to its own folder.
struct Settings {
  std::string executable;
  std::vector<std::string> paths;
};

Settings ReadSettings() {
  Settings settings;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&EnsureInterpreter), &info) == 0 ||
      info.dli_fname == nullptr) {
    return settings;
  }
  const auto folder = std::filesystem::absolute(info.dli_fname).parent_path();
  std::ifstream file(folder / "carafe_python.conf");
  std::string line;
  while (std::getline(file, line)) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "executable") settings.executable = value;
    if (name == "path") settings.paths.push_back((folder / value).lexically_normal().string());
  }
  if (const char* named = std::getenv("CARAFE_PYTHON")) settings.executable = named;
  return settings;
}

// Python's part in signals and in ending the process stays with the program; what it prints is not
// held back, for nobody will flush it.
void Start(const Settings& settings) {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.parse_argv = 0;
  config.buffered_stdio = 0;
  PyStatus status = PyStatus_Ok();
  if (!settings.executable.empty() && std::filesystem::exists(settings.executable)) {
    status = PyConfig_SetBytesString(&config, &config.executable, settings.executable.c_str());
  }
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) {
    throw ConfigError(fmt::format("Python does not start: {}",
                                  status.err_msg != nullptr ? status.err_msg : "no reason given"),
                      "see whether PYTHONHOME or PYTHONPATH name another Python; build again after "
                      "a change of Python");
  }
}

void ImportPackage(const Settings& settings) {
  try {
    py::list path = py::module_::import("sys").attr("path");
    path.insert(0, "");  // the current folder, as in `python -c`
    for (const std::string& folder : settings.paths) path.append(folder);
    py::module_::import("caffe");
  } catch (py::error_already_set& error) {
    throw ConfigError(
        fmt::format("Python does not find the package caffe, or it fails: {}", error.what()),
        "build all of it (./quickstart.sh --python), or name its folder in PYTHONPATH");
  }
}

}  // namespace

bool IsEmbedded() { return embedded; }

void EnsureInterpreter() {
  static std::mutex mutex;
  static bool ready = false;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) return;  // called by Python
  const std::lock_guard lock(mutex);
  if (ready) return;
  if (Py_IsInitialized() == 0) {
    const Settings settings = ReadSettings();
    embedded = true;
    Start(settings);
    try {
      ImportPackage(settings);
    } catch (...) {
      PyEval_SaveThread();
      throw;
    }
    PyEval_SaveThread();  // every layer takes the lock when it needs it
  }
  ready = true;
}

}  // namespace carafe::python
