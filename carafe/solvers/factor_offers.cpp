#include "carafe/solvers/factor_offers.h"

#include <fmt/format.h>

#include "carafe/base/error.h"
#include "carafe/base/index.h"
#include "carafe/core/row_share.h"

namespace carafe {
namespace {

// Rows of the batch as the net was built: of its first blob.
template <typename T>
int64_t BuiltRows(const Net<T>& net) {
  for (const auto& tops : net.tops())
    if (!tops.empty() && tops[0]->shape().rank() > 0) return tops[0]->shape()[0];
  return 1;
}

// With a global batch the worker's share of it takes the place of the rows that the file gives.
template <typename T>
int64_t RowsOfPass(const Net<T>& net, int param, const Replica& replica) {
  const int64_t rows = net.FactorRows(param);
  if (replica.global_batch <= 0) return rows;
  const int64_t built = BuiltRows(net);
  return built > 0 && rows % built == 0 ? rows / built * RowsOf(replica, built) : 0;
}

}  // namespace

template <typename T>
FactorRows FactorRowsOfStep(WorkerTeam<T>& team, int iter_size) {
  FactorRows rows(static_cast<size_t>(team.size()));
  for (int w = 0; w < team.size(); ++w) {
    const Net<T>& net = team.net(w);
    for (int p = 0; p < Count(net.params()); ++p) {
      const bool learns = !At(net.params(), p).frozen() && At(net.params(), p).learned;
      At(rows, w).push_back(learns ? iter_size * RowsOfPass(net, p, team.replica(w)) : 0);
    }
  }
  return rows;
}

template <typename T>
const std::string& LayerOf(const Net<T>& net, int param) {
  return At(net.layers(), At(net.params(), param).layer)->name();
}

template <typename T>
void OfferFactors(const Net<T>& net, int param, const FactorRows& rows, const LayerPlan& plan,
                  ParamInfo<T>* info) {
  if (At(rows[0], param) == 0 || plan.Find(LayerOf(net, param)) == LayerScheme::kDense) return;
  const Shape& shape = At(net.params(), param).blob->shape();
  info->factors = {At(rows[0], param), shape[0], shape.Count(1)};
  for (int w = 1; w < Count(rows); ++w) info->other_factor_rows.push_back(At(At(rows, w), param));
}

template <typename T>
void CheckPlan(const LayerPlan& plan, const Net<T>& net, const FactorRows& rows) {
  std::string can;  // layers that have factors
  for (int p = 0; p < Count(net.params()); ++p)
    if (At(rows[0], p) > 0) can += fmt::format("{}{}", can.empty() ? "" : ", ", LayerOf(net, p));
  const std::string fix = can.empty() ? "no layer of this net has factors: remove --plan"
                                      : "layers that have factors: " + can;
  for (const auto& [layer, scheme] : plan.layers) {
    bool exists = false, has_factors = false;
    for (const auto& of_net : net.layers()) exists |= of_net->name() == layer;
    for (int p = 0; p < Count(net.params()); ++p)
      has_factors |= LayerOf(net, p) == layer && At(rows[0], p) > 0;
    if (!exists) throw ConfigError(fmt::format("--plan: the net has no layer \"{}\"", layer), fix);
    if (scheme == LayerScheme::kFactors && !has_factors)
      throw ConfigError(
          fmt::format("--plan: layer \"{}\" has no factors (it is not fully connected, is frozen, "
                      "or shares its weights with another kind of layer)",
                      layer),
          fix);
  }
}

template FactorRows FactorRowsOfStep(WorkerTeam<float>&, int);
template FactorRows FactorRowsOfStep(WorkerTeam<double>&, int);
template void OfferFactors(const Net<float>&, int, const FactorRows&, const LayerPlan&,
                           ParamInfo<float>*);
template void OfferFactors(const Net<double>&, int, const FactorRows&, const LayerPlan&,
                           ParamInfo<double>*);
template const std::string& LayerOf(const Net<float>&, int);
template const std::string& LayerOf(const Net<double>&, int);
template void CheckPlan(const LayerPlan&, const Net<float>&, const FactorRows&);
template void CheckPlan(const LayerPlan&, const Net<double>&, const FactorRows&);

}  // namespace carafe
