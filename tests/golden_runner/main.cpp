// golden_runner DIR: replays the reference cases of DIR/index.json against the library.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>

#include "carafe/base/log.h"
#include "case.h"

namespace carafe::golden {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, RunCase>& Kinds() {
  static const std::map<std::string, RunCase> kinds = {
      {"layer", RunLayer}, {"solver", RunSolver},   {"reject", RunReject},
      {"model", RunModel}, {"filler", RunFiller},   {"property", RunProperty},
      {"mean", RunMean},   {"convert", RunConvert}, {"upgrade", RunUpgrade}};
  return kinds;
}

// A private copy of the set as working directory; gone at the end.
class WorkingCopy {
 public:
  explicit WorkingCopy(const fs::path& set) : back_(fs::current_path()) {
    std::string name = (fs::temp_directory_path() / "golden-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
    fs::copy(set, folder_ / "set", fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / "set")) {
      fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
    }
    fs::permissions(folder_ / "set", fs::perms::owner_write, fs::perm_options::add);
    fs::current_path(folder_ / "set");
  }
  WorkingCopy(const WorkingCopy&) = delete;
  WorkingCopy& operator=(const WorkingCopy&) = delete;
  ~WorkingCopy() {
    std::error_code ignored;
    fs::current_path(back_, ignored);
    fs::remove_all(folder_, ignored);
  }

 private:
  const fs::path back_;
  fs::path folder_;
};

// What is wrong with the case; empty if it passes. A case that needs what this build lacks fails.
std::vector<std::string> FailuresOf(const Case& c) {
  Report report;
  try {
    const auto kind = Kinds().find(c.kind());
    if (kind == Kinds().end()) return {fmt::format("unknown kind {}", c.kind())};
    kind->second(c, report);
  } catch (const std::exception& error) {
    std::vector<std::string> failures = report.failures();
    failures.insert(failures.begin(), error.what());
    return failures;
  } catch (...) {
    return {"something that is not a std::exception was thrown"};
  }
  if (report.compared() == 0) return {"nothing was compared"};
  return report.failures();
}

void PrintFailure(const Case& c, const std::vector<std::string>& failures) {
  const std::string more =
      failures.size() > 1 ? fmt::format(" (and {} more)", failures.size() - 1) : "";
  fmt::print("FAIL {} {}: {}{}\n", c.kind(), c.name(), failures.front(), more);
}

struct Flags {
  std::string folder, filter;
  bool list = false, verbose = false;
  Options options;
};

struct Tally {
  int passed = 0, failed = 0;
};

int Run(Flags flags) {
  flags.options.tools = fs::absolute(flags.options.tools).string();
  const Json index = Json::parse(std::ifstream(fs::path(flags.folder) / "index.json"));
  const std::regex filter(flags.filter);
  std::vector<Case> cases;
  for (const Json& entry : index.at("cases")) {
    Case c{entry, flags.options};
    if (std::regex_search(c.kind() + "/" + c.name(), filter)) cases.push_back(std::move(c));
  }
  if (flags.list) {
    for (const Case& c : cases) fmt::print("{}/{}\n", c.kind(), c.name());
    return 0;
  }
  SetLogToStderr(flags.verbose);
  if (flags.options.gpu >= 0) fmt::print("nets run on {}\n", flags.options.device().name());
  const WorkingCopy copy(flags.folder);
  Tally all;
  std::map<std::string, Tally> by_kind;
  for (const Case& c : cases) {
    const std::vector<std::string> failures = FailuresOf(c);
    if (!failures.empty()) {
      PrintFailure(c, failures);
      std::fflush(stdout);
    }
    int Tally::*counter = failures.empty() ? &Tally::passed : &Tally::failed;
    ++(all.*counter);
    ++(by_kind[c.kind()].*counter);
  }
  for (const auto& [kind, tally] : by_kind) {
    fmt::print("{}: {} passed, {} failed\n", kind, tally.passed, tally.failed);
  }
  fmt::print("{} passed, {} failed\n", all.passed, all.failed);
  return all.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace carafe::golden

int main(int argc, char** argv) {
  carafe::golden::Flags flags;
  CLI::App app("Replays reference cases against the library.");
  app.add_option("folder", flags.folder, "folder with index.json")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--filter", flags.filter, "run the cases whose kind/name contains this regex");
  app.add_option("--threads", flags.options.threads, "threads of the kernels");
  app.add_option("--gpu", flags.options.gpu, "number of the GPU on which nets run")
      ->check(CLI::NonNegativeNumber);
  flags.options.tools =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../tools").string();
  app.add_option("--tools", flags.options.tools, "folder of the command line tools");
  app.add_flag("--list", flags.list, "only list the cases");
  app.add_flag("-v,--verbose", flags.verbose, "show the library's log");
  CLI11_PARSE(app, argc, argv);
  try {
    return carafe::golden::Run(flags);
  } catch (const std::exception& error) {
    fmt::print(stderr, "golden_runner: {}\n", error.what());
    return 1;
  }
}
