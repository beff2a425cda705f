#include "carafe/train/layer_schemes.h"

#include <fmt/format.h>

#include <optional>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/solvers/factor_offers.h"

namespace carafe {
namespace {

bool TakesFactors(const std::string& exchange) { return exchange == "sfb" || exchange == "auto"; }

std::optional<LayerScheme> SchemeNamed(const std::string& name) {
  for (const LayerScheme scheme : {LayerScheme::kDense, LayerScheme::kFactors})
    if (NameOf(scheme) == name) return scheme;
  return std::nullopt;
}

// Of a layer that names its scheme in the net's file.
template <typename T>
void CheckFactors(Solver<T>& solver, const std::string& name, LayerScheme scheme) {
  if (scheme == LayerScheme::kDense) return;
  for (int p = 0; p < Count(solver.net().params()); ++p)
    if (LayerOf(solver.net(), p) == name && At(solver.factor_rows()[0], p) > 0) return;
  for (const auto& layer : solver.net().layers())
    layer->spec().Check(
        layer->name() != name, "exchange_scheme",
        fmt::format("it has no factors for exchange_scheme \"{}\" (it is not fully connected, is "
                    "frozen, or has its weights from another layer)",
                    NameOf(scheme)),
        "remove exchange_scheme, or write exchange_scheme: \"dense\"");
}

}  // namespace

template <typename T>
LayerPlan SchemesOfFile(const Net<T>& net) {
  LayerPlan plan;
  for (const auto& layer : net.layers()) {
    const LayerSpec& spec = layer->spec();
    if (!spec.param().has_exchange_scheme()) continue;
    const std::string& name = spec.param().exchange_scheme();
    const std::optional<LayerScheme> scheme = SchemeNamed(name);
    spec.Check(scheme.has_value(), "exchange_scheme",
               fmt::format("exchange_scheme is \"{}\", which names no scheme", name),
               "the schemes are dense and sfb");
    if (!plan.Find(layer->name())) plan.layers.emplace_back(layer->name(), *scheme);
  }
  return plan;
}

template <typename T>
LayerPlan AskedPlan(const TrainOptions& options, Solver<T>& solver) {
  LayerPlan plan = LayerPlan::Parse(options.plan);
  const LayerPlan of_file = SchemesOfFile(solver.net());
  if (!TakesFactors(*options.exchange)) {
    if (plan.layers.empty()) return plan;
    throw ConfigError(
        fmt::format("--plan is for --exchange=sfb or auto, not for {}", *options.exchange),
        "remove it, or use --exchange=sfb");
  }
  CheckPlan(plan, solver.net(), solver.factor_rows());
  for (const auto& [layer, scheme] : of_file.layers) {
    if (plan.Find(layer)) continue;
    CheckFactors(solver, layer, scheme);
    plan.layers.emplace_back(layer, scheme);
  }
  return plan;
}

template <typename T>
std::string UnusedSchemes(const TrainOptions& options, Solver<T>& solver) {
  const LayerPlan of_file = SchemesOfFile(solver.net());
  if (TakesFactors(*options.exchange) || of_file.layers.empty()) return "";
  return fmt::format(
      "exchange_scheme of layers is not used by --exchange={} (but by sfb and auto): {}",
      *options.exchange, of_file.Text());
}

template <typename T>
std::string PlanText(Solver<T>& solver) {
  LayerPlan plan;
  bool any = false;
  for (int p = 0; p < Count(solver.net().params()); ++p) {
    if (At(solver.factor_rows()[0], p) == 0) continue;
    const bool by_factors = solver.exchanges_factors(p);
    any |= by_factors;
    plan.layers.emplace_back(LayerOf(solver.net(), p),
                             by_factors ? LayerScheme::kFactors : LayerScheme::kDense);
  }
  return any ? plan.Text() : "";
}

template LayerPlan SchemesOfFile(const Net<float>&);
template LayerPlan SchemesOfFile(const Net<double>&);
template std::string UnusedSchemes(const TrainOptions&, Solver<float>&);
template std::string UnusedSchemes(const TrainOptions&, Solver<double>&);
template LayerPlan AskedPlan(const TrainOptions&, Solver<float>&);
template LayerPlan AskedPlan(const TrainOptions&, Solver<double>&);
template std::string PlanText(Solver<float>&);
template std::string PlanText(Solver<double>&);

}  // namespace carafe
