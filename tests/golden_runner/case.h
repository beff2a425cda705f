// One entry of index.json and the kinds of cases. Every kind runs in the set's folder as the
// working directory.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "carafe/net/net.h"
#include "report.h"

namespace carafe::golden {

// What the variable CARAFE_ALGORITHM asks for, for every net.
const AlgorithmChoices& Algorithms();

using Json = nlohmann::json;

// What the command line says to all cases.
struct Options {
  std::string tools;  // folder of the command line tools
  int threads = 1;
  int gpu = -1;  // where nets run; -1: on the CPU

  Device& device() const { return gpu < 0 ? CpuDevice() : CudaDevice(gpu); }
};

struct Case {
  Json entry;
  const Options& options;

  std::string name() const { return entry.at("name"); }
  std::string kind() const { return entry.at("kind"); }
  template <typename T>
  T Get(const char* key, T otherwise) const {
    const auto found = entry.find(key);
    return found == entry.end() || found->is_null() ? otherwise : found->template get<T>();
  }
  std::string Text(const char* key) const { return entry.at(key).get<std::string>(); }
  bool Has(const char* key) const { return entry.contains(key) && !entry[key].is_null(); }
  // How much wider tolerances are where CARAFE_ALGORITHM forces Winograd's large tiles upon all
  // convolutions that can have them, however few their channels.
  static double Width() { return Algorithms().asked.starts_with("winograd") ? 10 : 1; }
  Tolerance tolerance() const {
    return {Get("exact", false) ? 0.0 : Width() * Get("rtol", 1e-4), Width() * Get("atol", 1e-6)};
  }
};

using RunCase = std::function<void(const Case&, Report&)>;

void RunLayer(const Case& c, Report& report);
void RunSolver(const Case& c, Report& report);
void RunReject(const Case& c, Report& report);
void RunModel(const Case& c, Report& report);
void RunFiller(const Case& c, Report& report);
void RunProperty(const Case& c, Report& report);
void RunMean(const Case& c, Report& report);
void RunConvert(const Case& c, Report& report);
void RunUpgrade(const Case& c, Report& report);

}  // namespace carafe::golden
