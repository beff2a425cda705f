#include "carafe/train/stats_yaml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "carafe/base/file.h"

namespace carafe {
namespace {

constexpr double kMb = 1048576;

std::string Sequence(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:g}", text.empty() ? "" : ", ", value);
  return "[" + text + "]";
}

}  // namespace

StatsYaml::StatsYaml(const std::string& path, int rank) : path_(fmt::format("{}.{}", path, rank)) {
  Write();
}

void StatsYaml::BeginStep() {
  if (start_seconds_ < 0) start_seconds_ = life_.Seconds();
}

void StatsYaml::Add(const StepSample& sample) {
  sums_.seconds += sample.seconds;
  sums_.data_wait += sample.data_wait;
  sums_.comm_wait += sample.comm_wait;
  sums_.bytes_sent += sample.bytes_sent;
  sums_.bytes_received += sample.bytes_received;
  sent_.push_back(sample.bytes_sent / kMb);
  received_.push_back(sample.bytes_received / kMb);
}

std::string StatsYaml::Text() const {
  const double share = sums_.seconds > 0 ? sums_.comm_wait / sums_.seconds : 0;
  std::string text = "# Application Statistics\n";
  const auto add = [&](const char* key, const std::string& value) {
    text += fmt::format("{}: {}\n", key, value);
  };
  const auto number = [](double value) { return fmt::format("{:g}", value); };
  add("app_thread_life_sec", Sequence({life_.Seconds()}));
  add("app_load_data_sec", Sequence({sums_.data_wait}));
  add("app_init_sec", Sequence({start_seconds_ < 0 ? life_.Seconds() : start_seconds_}));
  add("app_accum_comp_sec_vec", Sequence({sums_.seconds}));
  add("app_accum_comm_block_sec", Sequence({sums_.comm_wait}));
  add("total_comp_thread", "1");
  add("app_accum_comp_sec", number(sums_.seconds));
  add("app_sum_accum_comm_block_sec", number(sums_.comm_wait));
  add("app_sum_accum_comm_block_sec_percent", number(share));
  add("ps_overall_overhead", number(share));
  text += "---\n# BgThread Stats\n";
  add("bg_accum_oplog_sent_mb", number(sums_.bytes_sent / kMb));
  add("bg_accum_server_push_row_recv_mb", number(sums_.bytes_received / kMb));
  add("bg_per_clock_oplog_sent_mb", Sequence(sent_));
  add("bg_per_clock_server_push_row_recv_mb", Sequence(received_));
  return text;
}

void StatsYaml::Write() const { WriteFileAtomically(path_, Text()); }

}  // namespace carafe
