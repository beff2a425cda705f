// The plot of a forecast.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "carafe/base/index.h"
#include "carafe/train/forecast.h"

namespace carafe {
namespace {

constexpr double kLeft = 60, kTop = 40, kWidth = 520, kHeight = 380, kLegend = 110;

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      escaped += ' ';  // no part of XML
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Powers of two from `low` on up to `high`.
std::vector<double> Ticks(double low, double high) {
  std::vector<double> ticks;
  for (double tick = low; tick <= high * 1.001; tick *= 2) ticks.push_back(tick);
  return ticks;
}

struct Axes {
  double most_ranks, least_speed, most_speed;

  double X(double ranks) const {
    return kLeft + kWidth * (most_ranks > 1 ? std::log2(ranks) / std::log2(most_ranks) : 0);
  }
  double Y(double speed) const {
    return kTop + kHeight * (1 - std::log2(speed / least_speed) /
                                     std::log2(std::max(most_speed / least_speed, 2.0)));
  }
};

std::string Grid(const Axes& axes) {
  std::string svg;
  for (const double tick : Ticks(1, axes.most_ranks))
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        axes.X(tick), kTop, kTop + kHeight, kTop + kHeight + 16, tick);
  for (const double tick : Ticks(axes.least_speed, axes.most_speed))
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        kLeft, axes.Y(tick), kLeft + kWidth, kLeft - 6, axes.Y(tick) + 4, tick);
  svg += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#999\" "
      "stroke-dasharray=\"4 4\"/>\n",
      axes.X(1), axes.Y(1), axes.X(axes.most_ranks), axes.Y(axes.most_ranks));
  return svg;
}

}  // namespace

std::string ForecastSvg(const MachineProfile& profile, const ForecastSettings& settings,
                        const Forecast& forecast) {
  const char* const colours[] = {"#1f77b4", "#d62728", "#8c564b", "#9467bd", "#2ca02c", "#ff7f0e"};
  std::vector<std::string> names;
  std::map<std::string, std::vector<const ForecastRow*>> lines;
  double least = 1;
  for (const ForecastRow& row : forecast.rows) {
    if (lines[row.exchange].empty()) names.push_back(row.exchange);
    lines[row.exchange].push_back(&row);
    least = std::min(least, row.speed_up);
  }
  const double ranks = settings.ranks;
  const Axes axes{ranks, std::exp2(std::floor(std::log2(std::max(least, 1e-6)))),
                  std::max(ranks, 1.0)};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n",
      kLeft + kWidth + kLegend, kTop + kHeight + 50);
  svg +=
      fmt::format("<text x=\"{}\" y=\"24\" font-size=\"14\">{}</text>\n", kLeft,
                  Escaped(fmt::format("{}, {:g} Gbit/s, {:g} us: speed-up over ranks", profile.net,
                                      8e-9 * settings.bandwidth, 1e6 * settings.latency)));
  svg += Grid(axes);
  for (int i = 0; i < Count(names); ++i) {
    std::string points, dots;
    for (const ForecastRow* row : lines[At(names, i)]) {
      const double x = axes.X(row->ranks), y = axes.Y(std::max(row->speed_up, 1e-6));
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\" "
          "stroke=\"{}\"/>",
          x, y, row->source == "model" ? "white" : colours[i], colours[i]);
    }
    const double y = kTop + 16 + 20 * i;
    svg +=
        fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>{}\n",
                    points, colours[i], dots);
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{3}\" stroke-width=\"2\"/>"
        "<text x=\"{4}\" y=\"{5}\">{6}</text>\n",
        kLeft + kWidth + 12, y, kLeft + kWidth + 34, colours[i], kLeft + kWidth + 40, y + 4,
        Escaped(At(names, i)));
  }
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">ranks (hollow: cost model, "
      "dashed: linear)</text>\n</svg>\n",
      kLeft + kWidth / 2, kTop + kHeight + 38);
  return svg;
}

}  // namespace carafe
