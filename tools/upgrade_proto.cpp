// carafe upgrade_net_proto_text, upgrade_net_proto_binary, upgrade_solver_proto_text: an old file
// written in its present form, as Caffe's tools of those names do.
// Exit codes are theirs: 1 for wrong usage or an upgrade that could not keep all, 2 for a file that
// cannot be read.
#include <fmt/format.h>

#include <climits>
#include <cstdio>
#include <memory>

#include "carafe/base/error.h"
#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/net/weights.h"
#include "carafe/proto/upgrade.h"
#include "tools/command.h"

namespace carafe {
namespace {

struct Files {
  std::string in, out;
};

// The file to upgrade is missing or no file of its kind.
class CannotRead : public Error {
 public:
  explicit CannotRead(const Error& error) : Error(error) {}
};

template <typename Message>
Place ReadText(const std::string& path, Message* message) {
  try {
    return ParseTextFile(path, message);
  } catch (const Error& error) {
    throw CannotRead(error);
  }
}

NetParameter ReadBinary(const std::string& path, NetUpgrade* upgrade) {
  try {
    return ReadNetBinary(path, upgrade);
  } catch (const DataError& error) {
    throw CannotRead(error);
  }
}

void Finish(const Files& files, const std::string& content, bool changed) {
  if (!changed) LogWarning("{} has the present form already", files.in);
  WriteFileAtomically(files.out, content);
  LogInfo("Wrote {}", files.out);
}

int UpgradeNetText(const Files& files) {
  NetParameter net;
  const Place place = ReadText(files.in, &net);
  const NetUpgrade upgrade = UpgradeNet(&net, files.in, place);
  Finish(files, FormatText(net), upgrade.changed);
  return upgrade.complete ? 0 : 1;
}

int UpgradeNetBinary(const Files& files) {
  NetUpgrade upgrade;
  const NetParameter net = ReadBinary(files.in, &upgrade);
  std::string bytes;
  if (net.ByteSizeLong() > INT_MAX || !net.SerializePartialToString(&bytes)) {
    throw DataError(files.out, -1, "the net is larger than a binaryproto file can be (2 GiB)",
                    "keep the old file: it is read as it is");
  }
  Finish(files, bytes, upgrade.changed);
  return upgrade.complete ? 0 : 1;
}

// Nets inside a solver stay as they are, as in the original: they are upgraded when they are read.
int UpgradeSolverText(const Files& files) {
  SolverParameter solver;
  const Place place = ReadText(files.in, &solver);
  const bool changed = UpgradeSolver(&solver, place);
  Finish(files, FormatText(solver), changed);
  return 0;
}

Command UpgradeCommand(const std::string& name, const std::string& summary,
                       int (*upgrade)(const Files&)) {
  return {.name = name,
          .summary = summary,
          .examples = fmt::format("  carafe {} old new", name),
          .prepare = [upgrade](CLI::App& app) {
            auto files = std::make_shared<Files>();
            app.add_option("in", files->in, "the old file")->required();
            app.add_option("out", files->out, "the file to write; may be the same")->required();
            return [files, upgrade] {
              try {
                return upgrade(*files);
              } catch (const CannotRead& error) {
                fmt::print(stderr, "{}\n", error.what());
                return 2;
              }
            };
          }};
}

const RegisterCommand kNetText{UpgradeCommand(
    "upgrade_net_proto_text", "Write an old net prototxt in its present form.", UpgradeNetText)};
const RegisterCommand kNetBinary{
    UpgradeCommand("upgrade_net_proto_binary",
                   "Write an old or foreign .caffemodel in its present form.", UpgradeNetBinary)};
const RegisterCommand kSolverText{
    UpgradeCommand("upgrade_solver_proto_text", "Write an old solver prototxt in its present form.",
                   UpgradeSolverText)};

}  // namespace
}  // namespace carafe
