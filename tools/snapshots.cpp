// carafe snapshots: lists the snapshots of a folder, the newest first, and verifies them.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <filesystem>
#include <memory>

#include "carafe/base/error.h"
#include "carafe/solvers/snapshot_list.h"
#include "carafe/solvers/snapshot_manifest.h"
#include "tools/command.h"

namespace carafe {
namespace {

namespace fs = std::filesystem;

std::string TimeText(int64_t microseconds) {
  const std::time_t seconds = microseconds / 1000000;
  std::tm local = {};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

// Reads all files of the snapshot.
std::string Verdict(const FoundSnapshot& found) {
  const SnapshotFacts facts = CheckSnapshotFiles(found.state);
  const std::string manifest = ManifestName(found.state);
  if (fs::exists(manifest)) CheckManifest(manifest);
  return facts.verified ? "whole" : "complete, not verified (no checksum)";
}

int ListSnapshots(const std::string& folder) {
  if (!fs::is_directory(folder))
    throw ConfigError(fmt::format("{} is no folder", folder), "give the folder of the snapshots");
  int damaged = 0;
  const std::vector<FoundSnapshot> all = FindSnapshotsIn(folder);
  for (const FoundSnapshot& found : all) {
    std::string verdict;
    try {
      verdict = Verdict(found);
    } catch (const DataError& error) {
      ++damaged;
      verdict = fmt::format("DAMAGED: {}: {}", error.fields().where.file, error.fields().what);
    }
    fmt::print("{}  iteration {:<8} {}  {}\n", TimeText(found.written_us), found.iteration,
               found.state, verdict);
  }
  fmt::print("{} snapshot{}, {} damaged\n", all.size(), all.size() == 1 ? "" : "s", damaged);
  return damaged == 0 ? 0 : 1;
}

const RegisterCommand kRegistered{
    {.name = "snapshots",
     .summary = "List the snapshots of a folder, the newest first, and verify their checksums.",
     .examples = "  carafe snapshots examples/mnist",
     .prepare = [](CLI::App& app) {
       auto folder = std::make_shared<std::string>(".");
       app.add_option("folder", *folder, "where the snapshots are")->capture_default_str();
       return [folder] { return ListSnapshots(*folder); };
     }}};

}  // namespace
}  // namespace carafe
