#include "carafe/net/row_axes.h"

namespace carafe {
namespace {

bool BeginAlike(const Shape& a, const Shape& b) {
  return a.rank() >= 2 && b.rank() >= 2 && a[0] == b[0] && a[1] == b[1];
}

}  // namespace

template <typename T>
std::vector<int> RowAxes(const Graph<T>& graph) {
  std::vector<int> axes(graph.blobs.size(), 1);
  const auto shape = [&](int id) -> const Shape& { return At(graph.blobs, id)->shape(); };
  std::vector<std::vector<int>> touched;  // by layer: its bottoms and tops
  for (int l = 0; l < graph.size(); ++l) {
    std::vector<int>& ids = touched.emplace_back(At(graph.bottom_ids, l));
    ids.insert(ids.end(), At(graph.top_ids, l).begin(), At(graph.top_ids, l).end());
    if (!At(graph.layers, l)->TakesSequences()) continue;
    for (const int id : ids) {
      if (BeginAlike(shape(id), shape(ids[0]))) At(axes, id) = 2;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::vector<int>& ids : touched) {
      for (const int from : ids) {
        if (At(axes, from) != 2) continue;
        for (const int to : ids) {
          if (At(axes, to) == 2 || !BeginAlike(shape(to), shape(from))) continue;
          At(axes, to) = 2;
          changed = true;
        }
      }
    }
  }
  return axes;
}

template <typename T>
void SetRowAxes(const Graph<T>& graph) {
  const std::vector<int> axes = RowAxes(graph);
  for (int l = 0; l < graph.size(); ++l) {
    if (At(graph.bottom_ids, l).empty()) continue;
    At(graph.layers, l)->SetRowAxes(At(axes, At(graph.bottom_ids, l)[0]));
  }
}

template std::vector<int> RowAxes(const Graph<float>&);
template std::vector<int> RowAxes(const Graph<double>&);
template void SetRowAxes(const Graph<float>&);
template void SetRowAxes(const Graph<double>&);

}  // namespace carafe
