// Our side of the race: a long-lived process that does one thing per line of its input and answers
// with one line of JSON, so that its blocks can take turns with those of another program.
//   info             -> {"flop": of one iteration, "parameters": N}
//   run N            -> {"seconds": [N of them]}
//   gemm N           -> {"flop": 2 N^3, "seconds": [5 of them]}; needs no net
//   load START       -> {}; inputs and parameters from a file
//   save START       -> {}; inputs and parameters as they are, to a file (see tensor_file.h)
//   result FILE      -> {}; runs once and writes what came out
//   compare A B      -> {"loss" or "scores": e, "gradients": e, "worst": name, "whole": e}; the
//                       distance of result A from result B, relative to B: of the gradient that
//                       differs most, and of all taken as one vector; needs no net
// An error is answered by {"error": text}. Ends with its input.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benchmarks/ours/subject.h"
#include "carafe/base/error.h"
#include "carafe/base/timer.h"
#include "carafe/kernels/gemm.h"

namespace carafe {
namespace {

using Json = nlohmann::json;

constexpr char kUsage[] =
    "usage: carafe_bench [--solver=FILE | --model=FILE] [--threads=N] [--classes=N] "
    "[--double=1]\n"
    "  started by benchmarks/run; commands come on the standard input";

SubjectOptions ParseFlags(int argc, char** argv) {
  SubjectOptions options;
  const std::map<std::string, std::function<void(const std::string&)>> flags = {
      {"--solver", [&](const std::string& v) { options.solver = v; }},
      {"--model", [&](const std::string& v) { options.model = v; }},
      {"--threads", [&](const std::string& v) { options.threads = std::stoi(v); }},
      {"--classes", [&](const std::string& v) { options.classes = std::stoi(v); }},
      {"--double", [&](const std::string& v) { options.in_double = v != "0"; }}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equal = argument.find('=');
    const auto flag = flags.find(argument.substr(0, equal));
    if (equal == std::string::npos || flag == flags.end()) {
      throw ConfigError(fmt::format("unknown argument {}", argument), kUsage);
    }
    flag->second(argument.substr(equal + 1));
  }
  if (options.threads < 1) throw ConfigError("--threads is below 1", "give at least 1");
  return options;
}

// Squares of side n, the way that layers call it.
Json TimeGemm(int threads, int64_t n) {
  Stream stream(CpuDevice(), threads);
  Blob<float> a({n, n}), b({n, n}), c({n, n});
  const std::vector<float> values(static_cast<size_t>(n * n), 0.5f);
  a.SetData(stream, values);
  b.SetData(stream, values);
  std::vector<double> seconds;
  for (int i = 0; i < 6; ++i) {
    const Timer timer;
    Gemm<float>(stream, Op::kNone, Op::kNone, n, n, n, 1, a.data(stream), b.data(stream), 0,
                c.mutable_data(stream));
    if (i > 0) seconds.push_back(timer.Seconds());  // the first warms up
  }
  return {{"flop", 2.0 * static_cast<double>(n * n * n)}, {"seconds", seconds}};
}

// Each tensor's distance relative to its own size. A gradient that is 0 but for rounding (a bias
// before BatchNorm) is no scale: none counts as smaller than 1e-4 of the largest. Written so that
// NaN is the worst of all.
Json Compare(const std::vector<Tensor>& mine, const std::vector<Tensor>& expected) {
  Ensure(mine.size() == expected.size(), "the files are of two nets");
  std::vector<Distance> distances;
  for (size_t i = 0; i < mine.size(); ++i) distances.push_back(DistanceOf(mine[i], expected[i]));
  const double tiny = std::numeric_limits<double>::min();
  Json errors = {{mine[0].name, distances[0].difference / std::max(distances[0].scale, tiny)}};
  double largest = 0, worst = 0, difference = 0, scale = 0;
  for (size_t i = 1; i < mine.size(); ++i) {
    largest = std::max(largest, distances[i].scale);
    difference += distances[i].difference * distances[i].difference;
    scale += distances[i].scale * distances[i].scale;
  }
  if (mine.size() > 1) errors["whole"] = std::sqrt(difference / std::max(scale, tiny));
  for (size_t i = 1; i < mine.size(); ++i) {
    const double error =
        distances[i].difference / std::max({distances[i].scale, 1e-4 * largest, tiny});
    if (i > 1 && error <= worst) continue;
    worst = error;
    errors["gradients"] = error;
    errors["worst"] = mine[i].name;
  }
  return errors;
}

template <typename T>
Json Answer(const std::string& line, Subject<T>* subject, int threads) {
  std::istringstream words(line);
  std::string command, argument, other;
  words >> command >> argument >> other;
  if (command == "compare") return Compare(ReadTensors(argument), ReadTensors(other));
  if (command == "gemm") return TimeGemm(threads, std::stoll(argument));
  if (subject == nullptr) throw ConfigError("there is no net", "give --solver or --model");
  if (command == "info") return {{"flop", subject->Flop()}, {"parameters", subject->Learned()}};
  if (command == "run") return {{"seconds", subject->Run(std::stoi(argument))}};
  if (command == "load") {
    subject->Load(ReadTensors(argument));
  } else if (command == "save") {
    WriteTensors(argument, subject->Start());
  } else if (command == "result") {
    WriteTensors(argument, subject->Result());
  } else {
    throw ConfigError(fmt::format("unknown command \"{}\"", line),
                      "use info, run, gemm, load, save, result or compare");
  }
  return Json::object();
}

template <typename T>
int Serve(const SubjectOptions& options) {
  std::unique_ptr<Subject<T>> subject;
  if (!options.solver.empty() || !options.model.empty()) {
    subject = std::make_unique<Subject<T>>(options);
  }
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = Answer(line, subject.get(), options.threads);
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

int Main(int argc, char** argv) {
  const SubjectOptions options = ParseFlags(argc, argv);
  return options.in_double ? Serve<double>(options) : Serve<float>(options);
}

}  // namespace
}  // namespace carafe

int main(int argc, char** argv) {
  try {
    return carafe::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
