// What a forecast looks like: a table, and JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "carafe/train/forecast.h"

namespace carafe {
namespace {

std::string SlowText(const std::vector<Stragglers>& slow) {
  std::string text;
  for (const Stragglers& some : slow)
    text += fmt::format(
        ", {} {:g} times as long",
        some.ranks > 0 ? fmt::format("{} rank{} always", some.ranks, some.ranks == 1 ? "" : "s")
                       : fmt::format("{:g} % of all steps", 100 * some.share),
        some.factor);
  return text;
}

std::string NameOf(const MachineProfile& profile) {
  return profile.net.empty() ? "(no name)" : profile.net;
}

}  // namespace

std::string ForecastTable(const MachineProfile& profile, const ForecastSettings& settings,
                          const Forecast& forecast) {
  std::string text = fmt::format(
      "{}, batch of {} a rank, {:.2f} MB of gradients, {:.3f} ms a step on one rank ({}, {} "
      "thread{})\n{:g} Gbit/s, {:g} us{}\n\n",
      NameOf(profile), profile.batch, 1e-6 * static_cast<double>(forecast.gradient_bytes),
      1e3 * forecast.one_rank_seconds, profile.device, profile.threads,
      profile.threads == 1 ? "" : "s", 8e-9 * settings.bandwidth, 1e6 * settings.latency,
      SlowText(settings.slow));
  text += fmt::format("{:<10} {:>6} {:>11} {:>9} {:>11} {:>11} {:>11}  {}\n", "exchange", "ranks",
                      "step ms", "speed-up", "efficiency", "exposed ms", "MB sent", "by");
  std::string plans;
  for (const ForecastRow& row : forecast.rows) {
    text += fmt::format("{:<10} {:>6} {:>11.3f} {:>9.2f} {:>9.1f} % {:>11.3f} {:>11.3f}  {}\n",
                        row.exchange, row.ranks, 1e3 * row.step_seconds, row.speed_up,
                        100 * row.efficiency, 1e3 * row.exposed_seconds,
                        1e-6 * static_cast<double>(row.bytes), row.source);
    if (row.exchange == "auto" && row.ranks > 1)
      plans += fmt::format("auto, {} ranks: {}\n", row.ranks,
                           row.plan.empty() ? "all layers dense" : "--plan=" + row.plan);
  }
  text += fmt::format(
      "\nMB sent: by the busiest rank in a step. ssp: staleness {}. by engine: simulated with the "
      "programs of training; by model: continued by the cost model, where that takes too long.\n",
      settings.staleness);
  return text + plans;
}

std::string ForecastJson(const MachineProfile& profile, const ForecastSettings& settings,
                         const Forecast& forecast) {
  using Json = nlohmann::ordered_json;
  Json slow = Json::array(), rows = Json::array();
  for (const Stragglers& some : settings.slow)
    slow.push_back({{"ranks", some.ranks}, {"share", some.share}, {"factor", some.factor}});
  for (const ForecastRow& row : forecast.rows) {
    rows.push_back({{"exchange", row.exchange},
                    {"ranks", row.ranks},
                    {"step_ms", 1e3 * row.step_seconds},
                    {"speed_up", row.speed_up},
                    {"efficiency", row.efficiency},
                    {"exposed_ms", 1e3 * row.exposed_seconds},
                    {"bytes", row.bytes},
                    {"by", row.source}});
    if (row.exchange == "auto") rows.back()["plan"] = row.plan;
  }
  const Json json = {{"net", profile.net},
                     {"batch", profile.batch},
                     {"device", profile.device},
                     {"threads", profile.threads},
                     {"bytes_per_second", settings.bandwidth},
                     {"latency_seconds", settings.latency},
                     {"staleness", settings.staleness},
                     {"slow", slow},
                     {"one_rank_ms", 1e3 * forecast.one_rank_seconds},
                     {"gradient_bytes", forecast.gradient_bytes},
                     {"rows", rows}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace carafe
