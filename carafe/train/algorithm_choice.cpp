#include "carafe/train/algorithm_choice.h"

#include "carafe/base/log.h"
#include "carafe/base/timer.h"
#include "carafe/net/plan.h"

namespace carafe {

std::string MeasureForAll(Group& group, Stream& stream, const std::string& asked,
                          const std::vector<Net<float>*>& nets, const std::string& known) {
  if (asked != "measure") return "";
  constexpr int kRuns = 3;
  const Timer timer;
  std::string text;
  if (group.rank() == 0) {
    if (group.size() > 1) group.Announce("the timing of algorithms");
    text = ChoicesToText(MeasureAlgorithms(stream, *nets.at(0), kRuns, ChoicesFromText(known)));
  }
  if (group.size() > 1) {
    int64_t size = static_cast<int64_t>(text.size());
    group.Broadcast(&size, sizeof size, 0, "the plan");
    text.resize(static_cast<size_t>(size));
    group.Broadcast(text.data(), text.size(), 0, "the plan");
    if (group.rank() == 0) group.Announce("");
  }
  AlgorithmChoices choices = {.asked = "measure", .measured = ChoicesFromText(text)};
  for (Net<float>* net : nets) net->SetPlan(choices);
  if (group.rank() == 0) {
    const size_t before = ChoicesFromText(known).size();
    LogInfo("algorithms of {} convolutions and directions timed in {:.1f} s, {} known before",
            choices.measured.size() - before, timer.Seconds(), before);
  }
  return text;
}

}  // namespace carafe
