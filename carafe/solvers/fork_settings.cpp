#include "carafe/solvers/fork_settings.h"

#include <charconv>

#include "carafe/base/file.h"
#include "carafe/proto/fork_messages.h"
#include "carafe/proto/text_scan.h"

namespace carafe {
namespace {

// The field is looked up in the text: reading the whole net again would log its upgrade again.
int ReduceBucketsOfFile(const std::string& path) {
  int buckets = 0;
  const std::string text = ReadFile(path);
  VisitFields(text, nullptr, [&](const TextField& field) {
    if (field.depth > 0 || field.name != "reduce_buckets") return;
    std::from_chars(field.value.data(), field.value.data() + field.value.size(), buckets);
  });
  return buckets;
}

}  // namespace

int ReduceBucketsOf(const SolverSpec& spec) {
  const SolverParameter& param = spec.param;
  if (param.has_net()) return ReduceBucketsOfFile(param.net());
  if (param.has_train_net()) return ReduceBucketsOfFile(param.train_net());
  const NetParameter& net =
      param.has_train_net_param() ? param.train_net_param() : param.net_param();
  return ForkPart<ForkNetParameter>(net).reduce_buckets();
}

}  // namespace carafe
