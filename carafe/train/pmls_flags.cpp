#include "carafe/train/pmls_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "carafe/base/error.h"
#include "carafe/comm/hosts.h"

namespace carafe {
namespace {

// Flags that change nothing here, and why.
struct Ineffective {
  const char* name;
  bool is_switch;
  const char* why;
};
constexpr char kStore[] = "it tunes a store of rows that does not exist here";
constexpr char kSharding[] = "shards are equal to one element, and weights do not depend on them";
constexpr Ineffective kIneffective[] = {
    {"num_rows_per_table", false, kSharding},
    {"init_thread_access_table", true, "the thread that starts the net is always a worker"},
    {"svb_timeout_ms", false, "nobody polls for factors; --comm_timeout bounds waits"},
    {"bg_idle_milli", false, "messages are sent when they are due, not by polling"},
    {"server_idle_milli", false, "messages are sent when they are due, not by polling"},
    {"thread_oplog_batch_size", false, kStore},
    {"row_candidate_factor", false, kStore},
    {"client_send_oplog_upper_bound", false, kStore},
    {"server_push_row_upper_bound", false, kStore},
    {"oplog_dense_serialized", true, kStore},
    {"oplog_type", false, kStore},
    {"append_only_oplog_type", false, kStore},
    {"append_only_buffer_capacity", false, kStore},
    {"append_only_buffer_pool_size", false, kStore},
    {"bg_apply_append_oplog_freq", false, kStore},
    {"process_storage_type", false, kStore},
    {"no_oplog_replay", true, kStore},
    {"version_maintain", true, kStore},
    {"suppression_on", true, kStore},
    {"use_approx_sort", true, kStore},
    {"naive_table_oplog_meta", true, kStore},
    {"num_zmq_threads", false, "there is no ZeroMQ; one thread a rank sends and receives"},
    {"numa_index", false, "--pin=on finds the cores of a rank by itself"},
    {"numa_policy", false, "--pin=on finds the cores of a rank by itself"},
};

// Flags of which only PMLS-Caffe's default means anything here.
struct DefaultOnly {
  const char* name;
  const char* value;
  const char* fix;
};
constexpr char kSnapshots[] =
    "remove it: rank 0 writes snapshots as `snapshot` in the solver says, and --snapshot resumes";
constexpr char kRows[] = "remove it: parameters are dense rows with one meaning";
constexpr DefaultOnly kDefaultOnly[] = {
    {"snapshot_clock", "-1", kSnapshots},
    {"snapshot_dir", "", kSnapshots},
    {"resume_clock", "-1", kSnapshots},
    {"resume_dir", "", kSnapshots},
    {"row_type", "0", kRows},
    {"server_table_logic", "-1", kRows},
};

constexpr double kBandwidthMbps = 40;  // PMLS-Caffe's default for clients and for servers

constexpr char kHowToLaunch[] =
    "a launcher starts the ranks here: carafe launch --hostfile FILE -- train ..., without "
    "--hostfile, --client_id and --num_clients";

class Translator {
 public:
  Translator(const GivenOptions& given, const PmlsRun& run) : run_(run) {
    for (const auto& [name, text] : given) {
      const bool theirs =
          std::ranges::any_of(PmlsFlags(), [&](const PmlsFlag& flag) { return flag.name == name; });
      (theirs ? flags_ : result_.given)[name] = text;
    }
  }

  PmlsResult Run() {
    Ranks();
    Threads();
    ExchangeOf();
    Consistency();
    Bandwidth();
    Order();
    Rows();
    Rest();
    return std::move(result_);
  }

 private:
  std::optional<std::string> Text(const std::string& flag) const {
    const auto found = flags_.find(flag);
    return found == flags_.end() ? std::nullopt : std::optional(found->second);
  }
  bool On(const std::string& flag) const { return Text(flag) == "true"; }
  std::optional<int64_t> Integer(const std::string& flag, double min) const {
    const std::optional<std::string> text = Text(flag);
    if (!text) return std::nullopt;
    const OptionDomain domain{.type = OptionType::kInteger, .min = min, .max = INT32_MAX};
    return domain.Integer(*text, "--" + flag, {});
  }
  std::string Named(const std::string& flag) const {
    return fmt::format("--{}={} of PMLS-Caffe", flag, Text(flag).value_or(""));
  }
  void Note(const std::string& flag, const std::string& became) {
    result_.notes.push_back(fmt::format("{}: {}", Named(flag), became));
  }

  const OptionInfo* Find(const std::string& option) const {
    for (const OptionInfo& info : run_.options)
      if (info.name == option) return &info;
    return nullptr;
  }
  // The option that a flag stands for; the command line may say the same again, but nothing else.
  void Set(const std::string& flag, const std::string& option, const std::string& value) {
    if (Find(option) == nullptr)
      throw ConfigError(
          fmt::format("{} needs --{}, which this build does not have", Named(flag), option),
          fmt::format("remove --{}", flag));
    const auto [found, added] = result_.given.emplace(option, value);
    if (!added && found->second != value)
      throw ConfigError(fmt::format("{} stands for --{}={}, but --{}={} is given", Named(flag),
                                    option, value, option, found->second),
                        fmt::format("remove --{} or --{}", flag, option));
  }

  // --hostfile, --num_clients and --client_id said who takes part; here the launcher does.
  void Ranks() {
    if (const auto file = Text("hostfile")) {
      const int hosts = TotalSlots(ReadHostFile(*file));
      CheckCount("hostfile", hosts);
      Note("hostfile", fmt::format("{} hosts, one for each rank of the launcher", hosts));
    }
    if (const auto clients = Integer("num_clients", 1)) {
      CheckCount("num_clients", *clients);
      Note("num_clients", "as many as the launcher's ranks");
    }
    if (const auto id = Integer("client_id", 0)) {
      if (*id != run_.rank)
        throw ConfigError(
            fmt::format("{}, but this is rank {} of {}", Named("client_id"), run_.rank, run_.size),
            kHowToLaunch);
      Note("client_id", "the launcher's rank");
    }
  }
  void CheckCount(const std::string& flag, int64_t clients) const {
    if (clients == run_.size) return;
    throw ConfigError(fmt::format("{} means {} processes, but there {} {}", Named(flag), clients,
                                  run_.size == 1 ? "is" : "are",
                                  run_.size == 1 ? "one" : std::to_string(run_.size)),
                      kHowToLaunch);
  }

  void Threads() {
    const auto threads = Integer("num_table_threads", 1);
    if (!threads) return;
    if (*threads < 2)
      throw ConfigError(fmt::format("{} leaves no worker: one thread was the table's own",
                                    Named("num_table_threads")),
                        "give the number of workers and one more, or use --workers");
    Set("num_table_threads", "workers", std::to_string(*threads - 1));
    Note("num_table_threads",
         fmt::format("--workers={}; one thread was the table's own", *threads - 1));
  }

  // The weights that --svb sent as factors bypassed the tables; with one client it did nothing.
  void ExchangeOf() {
    const int64_t staleness = Integer("table_staleness", 0).value_or(0);
    const bool factors = On("svb") && run_.size > 1;
    if (factors && staleness > 0)
      throw ConfigError(
          fmt::format("{} and {}: factors are exchanged synchronously here, and weights may not "
                      "lag behind",
                      Named("svb"), Named("table_staleness")),
          "use --svb=false, or --table_staleness=0");
    if (factors) {
      Set("svb", "exchange", "sfb");
      Note("svb", "--exchange=sfb");
    } else if (Text("svb")) {
      Note("svb", On("svb") ? "without effect: there is one rank, as in PMLS-Caffe"
                            : "no factors are sent");
    }
    if (Text("table_staleness") && factors)
      Note("table_staleness", "--exchange=sfb, which is synchronous");
    else if (!factors && (Text("table_staleness") || Text("consistency_model")))
      UseServer(staleness);
  }
  void UseServer(int64_t staleness) {
    const std::string flag = Text("table_staleness") ? "table_staleness" : "consistency_model";
    Set(flag, "exchange", "ssp");
    Set(flag, "staleness", std::to_string(staleness));
    server_ = true;
    if (Text("table_staleness"))
      Note(flag, fmt::format("--exchange=ssp --staleness={}", staleness));
    if (run_.size == 1 && result_.given.count("workers") == 0) return;
    result_.notes.push_back(
        Find("combine") != nullptr && Find("server_update") != nullptr
            ? "PMLS-Caffe added the updates of all workers, and this run takes their mean; "
              "--server_update=arrival --combine=sum adds them"
            : "PMLS-Caffe added the updates of all workers, and this run takes their mean; "
              "base_lr times the number of workers moves the weights as far");
  }

  void Consistency() {
    const auto model = Text("consistency_model");
    if (!model) return;
    static const std::map<std::string, std::string> names = {
        {"SSP", "ssp"}, {"SSPPush", "ssppush"}, {"SSPAggr", "sspaggr"}};
    const auto found = names.find(*model);
    if (found == names.end())
      throw ConfigError(fmt::format("{} is no consistency model", Named("consistency_model")),
                        "use SSP, SSPPush or SSPAggr");
    managed_ = server_ && *model == "SSPAggr";
    if (!server_) return Note("consistency_model", "--exchange=sfb, which is synchronous");
    if (Find("consistency") == nullptr && *model == "SSPPush")
      return Note("consistency_model", "owners push new values, as --exchange=ssp always does");
    Set("consistency_model", "consistency", found->second);
    Note("consistency_model", fmt::format("--exchange=ssp --consistency={}", found->second));
  }

  // PMLS-Caffe limited every thread that sends: of each channel, one of the client and one of the
  // server. A rank here is both.
  void Bandwidth() {
    const int64_t channels = Integer("num_comm_channels_per_client", 1).value_or(1);
    double limit = 0;
    std::string flag;
    for (const std::string name : {"client_bandwidth_mbps", "server_bandwidth_mbps"}) {
      const auto text = Text(name);
      const OptionDomain domain{.type = OptionType::kNumber, .min = 0.001, .max = 1e9};
      limit += (text ? domain.Number(*text, "--" + name, {}) : kBandwidthMbps) *
               static_cast<double>(channels);
      if (text) flag = name;
    }
    if (managed_) {
      Set(flag.empty() ? "consistency_model" : flag, "bandwidth_mbps", OptionText(limit));
      for (const std::string name :
           {"client_bandwidth_mbps", "server_bandwidth_mbps", "num_comm_channels_per_client"}) {
        if (Text(name))
          Note(name, fmt::format("--bandwidth_mbps={}: client and server together, times {} "
                                 "channels",
                                 OptionText(limit), channels));
      }
      return;
    }
    for (const std::string name : {"client_bandwidth_mbps", "server_bandwidth_mbps"})
      if (Text(name)) Note(name, "without effect: SSPAggr alone limits it, as in PMLS-Caffe");
    if (Text("num_comm_channels_per_client"))
      Note("num_comm_channels_per_client",
           "without effect: one thread a rank sends and receives for all shards");
  }

  void Order() {
    const auto policy = Text("update_sort_policy");
    if (!policy) return;
    static const std::map<std::string, std::string> names = {
        {"FIFO", "fifo"},
        {"Random", "random"},
        {"RelativeMagnitude", "relative_magnitude"},
        {"FIFO_N_ReMag", "fifo_n_remag"}};
    const auto found = names.find(*policy);
    if (found == names.end())
      throw ConfigError(fmt::format("{} is no order that exists here", Named("update_sort_policy")),
                        "use FIFO, Random, RelativeMagnitude or FIFO_N_ReMag");
    if (!managed_)
      return Note("update_sort_policy", "without effect: SSPAggr alone sorts, as in PMLS-Caffe");
    Set("update_sort_policy", "send_order", found->second);
    Note("update_sort_policy", "--send_order=" + found->second);
  }

  void Rows() {
    if (const auto type = Integer("row_oplog_type", 0)) {
      if (*type > 3)
        throw ConfigError(fmt::format("{} is no kind of row", Named("row_oplog_type")),
                          "use 0 (dense), 1 or 2 (sparse) or 3 (dense, half precision)");
      if (*type == 3) Set("row_oplog_type", "wire", "fp16");
      Note("row_oplog_type", *type == 3 ? "--wire=fp16" : "without effect: rows are dense");
    }
    if (Text("numa_opt")) {
      if (On("numa_opt")) Set("numa_opt", "pin", "on");
      Note("numa_opt", On("numa_opt") ? "--pin=on" : "ranks are not pinned");
    }
  }

  void Rest() {
    for (const Ineffective& row : kIneffective)
      if (Text(row.name)) Note(row.name, fmt::format("without effect: {}", row.why));
    for (const DefaultOnly& row : kDefaultOnly) {
      const auto text = Text(row.name);
      if (!text) continue;
      if (*text != row.value)
        throw ConfigError(fmt::format("{} has no counterpart here", Named(row.name)), row.fix);
      Note(row.name, "without effect: it is PMLS-Caffe's default");
    }
  }

  const PmlsRun& run_;
  GivenOptions flags_;  // PMLS-Caffe's
  PmlsResult result_;
  bool server_ = false;   // --exchange=ssp
  bool managed_ = false;  // SSPAggr
};

}  // namespace

const std::vector<PmlsFlag>& PmlsFlags() {
  static const std::vector<PmlsFlag> flags = [] {
    std::vector<PmlsFlag> all = {{"hostfile"},
                                 {"client_id"},
                                 {"num_clients"},
                                 {"num_table_threads"},
                                 {"table_staleness"},
                                 {"consistency_model"},
                                 {"num_comm_channels_per_client"},
                                 {"client_bandwidth_mbps"},
                                 {"server_bandwidth_mbps"},
                                 {"update_sort_policy"},
                                 {"row_oplog_type"},
                                 {"svb", true},
                                 {"numa_opt", true}};
    for (const Ineffective& row : kIneffective) all.push_back({row.name, row.is_switch});
    for (const DefaultOnly& row : kDefaultOnly) all.push_back({row.name});
    return all;
  }();
  return flags;
}

PmlsResult TranslatePmlsFlags(const GivenOptions& given, const PmlsRun& run) {
  return Translator(given, run).Run();
}

}  // namespace carafe
