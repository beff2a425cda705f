#include "carafe/train/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace carafe {
namespace {

constexpr int64_t kFloat = 4;

Shapes ShapesOf(const std::vector<Blob<float>*>& blobs) {
  Shapes shapes;
  for (const Blob<float>* blob : blobs) shapes.push_back(blob->shape());
  return shapes;
}

void AddParameters(const Net<float>& net, NetSummary* summary) {
  for (const Param<float>& param : net.params()) {
    LayerCost& cost = summary->layers[static_cast<size_t>(param.layer)];
    const int64_t count = param.blob->count();
    (param.learned ? cost.parameters : cost.statistics) += count;
    if (param.learned && param.frozen()) cost.frozen += count;
    if (!param.learned || !param.frozen()) cost.exchange_bytes += count * kFloat;
  }
}

std::string ShapeText(const Shape& shape) {
  return shape.rank() == 0 ? "scalar" : fmt::format("{}", fmt::join(shape.dims(), "x"));
}

std::string HumanBytes(int64_t bytes) {
  if (bytes == 0) return "-";
  const std::string number = HumanNumber(bytes);
  return number + (std::isdigit(static_cast<unsigned char>(number.back())) ? " B" : "B");
}

std::string OrDash(int64_t number) { return number == 0 ? "-" : HumanNumber(number); }

using Row = std::vector<std::string>;

Row RowOf(const LayerCost& cost, int64_t batch) {
  std::string shapes;
  for (const Shape& top : cost.tops) shapes += (shapes.empty() ? "" : ", ") + ShapeText(top);
  std::string parameters = OrDash(cost.parameters);
  if (cost.statistics > 0) {
    parameters = cost.parameters == 0 ? "" : parameters + " ";
    parameters += fmt::format("({})", HumanNumber(cost.statistics));
  }
  return {cost.name,
          cost.type,
          shapes,
          parameters,
          OrDash(cost.multiply_adds / batch),
          OrDash(cost.multiply_adds),
          HumanBytes(cost.activation_bytes),
          HumanBytes(cost.exchange_bytes)};
}

// The first three columns to the left, numbers to the right; `rules` are the rows above which a
// line is drawn.
std::string Aligned(const std::vector<Row>& rows, const std::set<size_t>& rules) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  size_t total = 2 * (widths.size() - 1);
  for (const size_t width : widths) total += width;
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (rules.contains(r)) text += std::string(total, '-') + "\n";
    std::string line;
    for (size_t c = 0; c < rows[r].size(); ++c) {
      if (c > 0) line += "  ";
      line += c < 3 ? fmt::format("{:<{}}", rows[r][c], widths[c])
                    : fmt::format("{:>{}}", rows[r][c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

nlohmann::ordered_json Json(const LayerCost& cost, int64_t batch) {
  nlohmann::ordered_json tops = nlohmann::ordered_json::array();
  for (size_t t = 0; t < cost.tops.size(); ++t) {
    const auto dims = cost.tops[t].dims();
    tops.push_back(
        {{"name", cost.top_names[t]}, {"shape", std::vector<int64_t>(dims.begin(), dims.end())}});
  }
  return {{"name", cost.name},
          {"type", cost.type},
          {"tops", tops},
          {"parameters", cost.parameters},
          {"statistics", cost.statistics},
          {"frozen", cost.frozen},
          {"multiply_adds_per_image", cost.multiply_adds / batch},
          {"multiply_adds", cost.multiply_adds},
          {"activation_bytes", cost.activation_bytes},
          {"exchange_bytes", cost.exchange_bytes}};
}

}  // namespace

NetSummary Summarize(const Net<float>& net) {
  NetSummary summary{.name = net.name(), .phase = net.phase()};
  summary.memory =
      PlanMemory(net.graph(), net.parameters(),
                 net.phase() == TRAIN ? MemorySharing::kTraining : MemorySharing::kForward, {});
  if (!net.blobs().empty() && net.blobs()[0]->shape().rank() > 0) {
    summary.batch = std::max<int64_t>(1, net.blobs()[0]->shape()[0]);
  }
  for (size_t l = 0; l < net.layers().size(); ++l) {
    Layer<float>& layer = *net.layers()[l];
    LayerCost cost{.name = layer.name(), .type = layer.spec().param().type()};
    cost.tops = ShapesOf(net.tops()[l]);
    for (size_t t = 0; t < cost.tops.size(); ++t) {
      const int id = net.top_ids()[l][t];
      cost.top_names.push_back(net.blob_names()[static_cast<size_t>(id)]);
      const bool in_place = std::ranges::count(net.bottom_ids()[l], id) > 0;
      if (!in_place && !layer.SharesBottom().data)
        cost.activation_bytes += cost.tops[t].Count() * kFloat;
    }
    cost.multiply_adds = layer.MultiplyAdds(ShapesOf(net.bottoms()[l]));
    summary.layers.push_back(std::move(cost));
  }
  AddParameters(net, &summary);
  LayerCost& total = summary.total;
  total.name = "total";
  for (const int id : net.output_ids()) {
    total.top_names.push_back(net.blob_names()[static_cast<size_t>(id)]);
    total.tops.push_back(net.blobs()[static_cast<size_t>(id)]->shape());
  }
  for (const LayerCost& cost : summary.layers) {
    total.parameters += cost.parameters;
    total.statistics += cost.statistics;
    total.frozen += cost.frozen;
    total.multiply_adds += cost.multiply_adds;
    total.activation_bytes += cost.activation_bytes;
    total.exchange_bytes += cost.exchange_bytes;
  }
  return summary;
}

std::string HumanNumber(int64_t number) {
  const char* units[] = {"", " k", " M", " G", " T", " P", " E"};
  double value = static_cast<double>(number);
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{}", number);
  return fmt::format("{:.{}f}{}", value, value < 99.995 ? 2 : 1, units[unit]);
}

std::string SummaryTable(const NetSummary& summary) {
  std::vector<Row> rows = {{"layer", "type", "output", "parameters", "mult-adds/image", "per batch",
                            "activations", "exchange"}};
  for (const LayerCost& cost : summary.layers) {
    if (cost.type != "Split") rows.push_back(RowOf(cost, summary.batch));
  }
  const size_t last = rows.size();
  rows.push_back(RowOf(summary.total, summary.batch));
  rows.back()[1] = rows.back()[2] = "";
  const LayerCost& total = summary.total;
  std::string text =
      fmt::format("{}, {}, batch of {}\n", summary.name.empty() ? "(no name)" : summary.name,
                  Phase_Name(summary.phase), summary.batch);
  text += Aligned(rows, {1, last});
  std::string outputs;
  for (size_t t = 0; t < total.tops.size(); ++t) {
    outputs +=
        fmt::format("{}{} {}", t > 0 ? ", " : "", total.top_names[t], ShapeText(total.tops[t]));
  }
  text += fmt::format("outputs: {}\n", outputs.empty() ? "none" : outputs);
  text += fmt::format("parameters: {} learned", total.parameters);
  if (total.frozen > 0) text += fmt::format(", {} of them frozen", total.frozen);
  if (total.statistics > 0) {
    text += fmt::format("; {} running statistics, in brackets above, are not learned",
                        total.statistics);
  }
  const MemoryPlan& memory = summary.memory;
  text += fmt::format(
      "\nmemory: {} for values{} ({} if none were used twice); parameters {}{}\n",
      HumanBytes(static_cast<int64_t>(memory.pool_bytes + memory.own_bytes)),
      summary.phase == TRAIN ? " and gradients of blobs" : "",
      HumanBytes(static_cast<int64_t>(memory.data_bytes + memory.diff_bytes + memory.kept_bytes +
                                      memory.own_bytes)),
      HumanBytes((total.parameters + total.statistics) * kFloat),
      summary.phase == TRAIN ? ", gradients as much (of one layer at a time with one worker)" : "");
  text += fmt::format("exchange: each worker has {} to tell the others in every iteration\n",
                      HumanBytes(total.exchange_bytes));
  return text;
}

std::string SummaryJson(const NetSummary& summary) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const LayerCost& cost : summary.layers) layers.push_back(Json(cost, summary.batch));
  const nlohmann::ordered_json json = {{"name", summary.name},
                                       {"phase", Phase_Name(summary.phase)},
                                       {"batch", summary.batch},
                                       {"layers", layers},
                                       {"total", Json(summary.total, summary.batch)},
                                       {"memory",
                                        {{"pool_bytes", summary.memory.pool_bytes},
                                         {"live_bytes", summary.memory.live_bytes},
                                         {"own_bytes", summary.memory.own_bytes},
                                         {"data_bytes", summary.memory.data_bytes},
                                         {"diff_bytes", summary.memory.diff_bytes},
                                         {"kept_bytes", summary.memory.kept_bytes}}}};
  return json.dump(2) + "\n";
}

}  // namespace carafe
