// Kind "property": laws of random behaviour that hold whatever the random numbers are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "carafe/base/random.h"
#include "hdf5_file.h"
#include "nets.h"

namespace carafe::golden {
namespace {

// A net in TRAIN and its passes.
struct Running {
  explicit Running(const Case& c)
      : stream(c.options.device(), c.options.threads), spec(LoadNetSpec(c.Text("path"))) {
    RequireLayerTypes(spec.param);
    net = std::make_unique<Net<float>>(spec, StateOf(spec, TRAIN), Algorithms());
    net->Initialise(stream, /*seed=*/1);
  }
  void Forward() {
    run.pass.index = ++pass;
    net->Forward(run);
  }
  Array Data(const std::string& blob) { return DataOf(stream, BlobNamed(*net, blob)); }

  Stream stream;
  NetSpec spec;
  std::unique_ptr<Net<float>> net;
  RunContext run{.stream = stream, .pass = {.seed = 1}};
  int64_t pass = -1;
};

std::vector<float> Uniform(uint64_t seed, int64_t count) {
  RandomSequence random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(0.5 + random.NextUniform());
  return values;
}

std::vector<bool> NonZero(const Array& array) {
  std::vector<bool> result;
  for (const double value : array.values) result.push_back(value != 0);
  return result;
}

void CheckDropout(const Case& c, Report& report) {
  Running r(c);
  const double keep = 1 - c.entry.at("ratio").get<double>();
  Blob<float>&x = BlobNamed(*r.net, "x"), &y = BlobNamed(*r.net, "y");
  const std::vector<float> in = Uniform(1, x.count()), gradient = Uniform(2, y.count());
  x.SetData(r.stream, in);
  r.Forward();
  const Array out = r.Data("y");
  const std::vector<bool> mask = NonZero(out);
  Array values = out, gradients = out;
  for (size_t i = 0; i < mask.size(); ++i) {
    values.values[i] = mask[i] ? in[i] / keep : 0;
    gradients.values[i] = mask[i] ? gradient[i] / keep : 0;
  }
  report.Compare("scaled values", values, out, {});
  const double kept =
      static_cast<double>(std::ranges::count(mask, true)) / static_cast<double>(mask.size());
  report.Check(std::abs(kept - keep) < 0.03, fmt::format("kept a part of {}", kept));
  y.SetDiff(r.stream, gradient);
  r.net->Backward(r.run);
  report.Compare("same mask backward", gradients, DiffOf(r.stream, x), {});
  x.SetData(r.stream, in);
  r.Forward();
  report.Check(NonZero(r.Data("y")) != mask, "the same mask in the next pass");
}

// Is picture `i` of `out` the window at (top, left) of picture `i` of `raw`?
bool IsWindow(const Array& raw, const Array& out, int64_t i, int64_t top, int64_t left,
              bool mirrored) {
  const auto at = [](const Array& a, int64_t n, int64_t c, int64_t y, int64_t x) {
    return a.values[static_cast<size_t>(((n * a.shape[1] + c) * a.shape[2] + y) * a.shape[3] + x)];
  };
  for (int64_t c = 0; c < out.shape[1]; ++c) {
    for (int64_t y = 0; y < out.shape[2]; ++y) {
      for (int64_t x = 0; x < out.shape[3]; ++x) {
        const int64_t from = mirrored ? out.shape[3] - 1 - x : x;
        if (at(out, i, c, y, x) != at(raw, i, c, top + y, left + from)) return false;
      }
    }
  }
  return true;
}

void CheckWindows(const Case& c, bool mirrors, bool crops, Report& report) {
  const Arrays expected = Arrays::Read(c.Text("raw"));
  const std::vector<double>& dims = expected.At("dims").values;
  Array raw = expected.At("data");
  raw.shape = {raw.shape[0], static_cast<int64_t>(dims[0]), static_cast<int64_t>(dims[1]),
               static_cast<int64_t>(dims[2])};
  Running r(c);
  r.Forward();
  const Array out = r.Data("data");
  std::set<std::tuple<int64_t, int64_t, bool>> seen;
  for (int64_t i = 0; i < out.shape[0]; ++i) {
    bool found = false;
    for (int64_t top = 0; top <= raw.shape[2] - out.shape[2] && !found; ++top) {
      for (int64_t left = 0; left <= raw.shape[3] - out.shape[3] && !found; ++left) {
        for (const bool mirrored : {false, true}) {
          if (found || !IsWindow(raw, out, i, top, left, mirrored)) continue;
          seen.insert({top, left, mirrored});
          found = true;
        }
      }
    }
    report.Check(found, fmt::format("sample {} is no window of its record", i));
  }
  std::set<bool> mirrorings;
  std::set<std::pair<int64_t, int64_t>> offsets;
  for (const auto& [top, left, mirrored] : seen) {
    mirrorings.insert(mirrored);
    offsets.insert({top, left});
  }
  report.Check(seen.size() > 1, "all samples are treated alike");
  report.Check(mirrors ? mirrorings.size() == 2 : !mirrorings.contains(true), "mirroring is wrong");
  report.Check(!crops || offsets.size() > 3, "the offsets do not vary");
}

void CheckShuffle(const Case& c, Report& report) {
  Running r(c);
  std::vector<std::vector<double>> rows;
  const auto add_rows = [](const Array& array, std::vector<std::vector<double>>* to) {
    const auto width = static_cast<std::ptrdiff_t>(array.values.size()) / array.shape[0];
    for (auto at = array.values.begin(); at != array.values.end(); at += width) {
      to->emplace_back(at, at + width);
    }
  };
  for (const std::string file : c.entry.at("files")) {
    Array data = Hdf5File(file).Read("data");
    for (double& value : data.values) value = static_cast<float>(value);
    add_rows(data, &rows);
  }
  const size_t passes = rows.size() / c.entry.at("batch").get<size_t>();
  bool shuffled = false;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::vector<double>> got;
    for (size_t i = 0; i < passes; ++i) {
      r.Forward();
      add_rows(r.Data("data"), &got);
    }
    shuffled = shuffled || got != rows;
    std::vector<std::vector<double>> expected = rows;
    std::ranges::sort(expected);
    std::ranges::sort(got);
    report.Check(got == expected, fmt::format("epoch {}: not every row came once", epoch));
  }
  report.Check(shuffled, "all epochs are in the order of the files");
}

void CheckRefill(const Case& c, Report& report) {
  Running r(c);
  r.Forward();
  const Array random = r.Data("g"), constant = r.Data("k");
  r.Forward();
  report.Check(r.Data("g").values != random.values, "a random filler did not fill again");
  report.Check(r.Data("k").values == constant.values, "a constant changed");
}

}  // namespace

void RunProperty(const Case& c, Report& report) {
  const std::string property = c.Text("property");
  if (property == "dropout") {
    CheckDropout(c, report);
  } else if (property == "mirror" || property == "crop" || property == "crop_mirror") {
    CheckWindows(c, property != "crop", property != "mirror", report);
  } else if (property == "h5_shuffle") {
    CheckShuffle(c, report);
  } else if (property == "refill") {
    CheckRefill(c, report);
  } else {
    report.Check(false, "unknown property " + property);
  }
}

}  // namespace carafe::golden
