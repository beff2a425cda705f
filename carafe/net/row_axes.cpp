#include "carafe/net/row_axes.h"

#include "carafe/layers/draws_by_row.h"

namespace carafe {
namespace {

bool BeginAlike(const Shape& a, const Shape& b) {
  return a.rank() >= 2 && b.rank() >= 2 && a[0] == b[0] && a[1] == b[1];
}

}  // namespace

template <typename T>
std::vector<int> RowAxes(const Net<T>& net) {
  std::vector<int> axes(net.blobs().size(), 1);
  const auto shape = [&](int id) -> const Shape& {
    return net.blobs()[static_cast<size_t>(id)]->shape();
  };
  std::vector<std::vector<int>> touched;  // by layer: its bottoms and tops
  for (size_t l = 0; l < net.layers().size(); ++l) {
    touched.push_back(net.bottom_ids()[l]);
    touched[l].insert(touched[l].end(), net.top_ids()[l].begin(), net.top_ids()[l].end());
    const std::string& type = net.layers()[l]->spec().param().type();
    if (type != "LSTM" && type != "RNN") continue;
    for (const int id : touched[l]) {
      if (BeginAlike(shape(id), shape(touched[l][0]))) axes[static_cast<size_t>(id)] = 2;
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const std::vector<int>& ids : touched) {
      for (const int from : ids) {
        if (axes[static_cast<size_t>(from)] != 2) continue;
        for (const int to : ids) {
          if (axes[static_cast<size_t>(to)] == 2 || !BeginAlike(shape(to), shape(from))) continue;
          axes[static_cast<size_t>(to)] = 2;
          changed = true;
        }
      }
    }
  }
  return axes;
}

template <typename T>
void TellRowAxes(const Net<T>& net) {
  const std::vector<int> axes = RowAxes(net);
  for (size_t l = 0; l < net.layers().size(); ++l) {
    if (auto* draws = dynamic_cast<DrawsByRow*>(net.layers()[l].get()))
      draws->SetRowAxes(axes[static_cast<size_t>(net.bottom_ids()[l][0])]);
  }
}

template std::vector<int> RowAxes(const Net<float>& net);
template std::vector<int> RowAxes(const Net<double>& net);
template void TellRowAxes(const Net<float>& net);
template void TellRowAxes(const Net<double>& net);

}  // namespace carafe
