#include "carafe/layers/multibox_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carafe/base/error.h"
#include "carafe/base/index.h"

namespace carafe {
namespace {

bool CrossesBorder(const Corners& box) {
  return box.x1 < 0 || box.x1 > 1 || box.y1 < 0 || box.y1 > 1 || box.x2 < 0 || box.x2 > 1 ||
         box.y2 < 0 || box.y2 > 1;
}

// A prior and its overlaps with the boxes; boxes of none are left out.
struct Near {
  int prior = 0;
  std::vector<float> overlaps;
};

// Each box gets the free prior that overlaps it most, boxes of the largest overlap first.
void MatchEachBox(const std::vector<Near>& near, int boxes, BoxMatches* matches) {
  std::vector<bool> done(static_cast<size_t>(boxes), false);
  for (int round = 0; round < boxes; ++round) {
    int best_prior = -1, best_box = -1;
    float most = 0;
    for (const Near& row : near) {
      if (At(matches->box, row.prior) != -1) continue;
      for (int b = 0; b < boxes; ++b) {
        if (done[static_cast<size_t>(b)] || At(row.overlaps, b) <= most) continue;
        best_prior = row.prior;
        best_box = b;
        most = At(row.overlaps, b);
      }
    }
    if (best_prior < 0) return;
    At(matches->box, best_prior) = best_box;
    At(matches->overlap, best_prior) = most;
    done[static_cast<size_t>(best_box)] = true;
    ++matches->matched;
  }
}

}  // namespace

template <typename T>
std::vector<std::vector<GivenBox>> BoxesOf(const LayerSpec& spec, const Blob<T>& blob,
                                           Stream& stream, int64_t images,
                                           const MultiBoxLossParameter& param) {
  const std::vector<T> rows = blob.DataToHost(stream);
  std::vector<std::vector<GivenBox>> boxes(static_cast<size_t>(images));
  for (size_t r = 0; r + 8 <= rows.size(); r += 8) {
    const auto number = [&](size_t i) { return static_cast<float>(rows[r + i]); };
    const auto fail = [&](const std::string& what, const std::string& fix) {
      throw DataError(spec.name(), static_cast<int64_t>(r / 8), "the box " + what, fix);
    };
    if (number(0) < 0) continue;
    if (!(number(0) < static_cast<float>(images))) {
      fail(fmt::format("is of image {}, but there are {}", number(0), images),
           "give scores and boxes of the same batch");
    }
    const float label = number(1);
    if (!(label >= 0 && label < static_cast<float>(param.num_classes())) ||
        static_cast<uint32_t>(label) == param.background_label_id()) {
      fail(fmt::format("has class {}, which is none of the {} classes or the background", label,
                       param.num_classes()),
           "number the classes apart from background_label_id, below num_classes");
    }
    if (!(number(5) > number(3) && number(6) > number(4))) {
      fail(fmt::format("from ({}, {}) to ({}, {}) has no area", number(3), number(4), number(5),
                       number(6)),
           "remove it from the annotations");
    }
    const bool difficult = number(7) != 0;
    if (difficult && !param.use_difficult_gt()) continue;
    At(boxes, static_cast<int64_t>(number(0)))
        .push_back(
            {static_cast<int>(label), {number(3), number(4), number(5), number(6)}, difficult});
  }
  return boxes;
}

BoxMatches MatchBoxes(const std::vector<float>& priors, const std::vector<GivenBox>& boxes,
                      const MultiBoxLossParameter& param) {
  const int count = static_cast<int>(priors.size() / 8);
  BoxMatches matches{std::vector<int>(static_cast<size_t>(count), -1),
                     std::vector<float>(static_cast<size_t>(count), 0)};
  if (boxes.empty()) return matches;
  std::vector<Near> near;
  for (int p = 0; p < count; ++p) {
    const float* at = priors.data() + static_cast<int64_t>(p) * 4;
    const Corners prior{at[0], at[1], at[2], at[3]};
    if (param.ignore_cross_boundary_bbox() && CrossesBorder(prior)) {
      At(matches.box, p) = -2;
      continue;
    }
    Near row{p, {}};
    for (const GivenBox& box : boxes) {
      const float overlap = Overlap(prior, box.corners);
      row.overlaps.push_back(overlap > 1e-6F ? overlap : 0);
    }
    At(matches.overlap, p) = *std::ranges::max_element(row.overlaps);
    if (At(matches.overlap, p) > 0) near.push_back(std::move(row));
  }
  MatchEachBox(near, Count(boxes), &matches);
  if (param.match_type() == MultiBoxLossParameter::BIPARTITE) return matches;
  for (const Near& row : near) {
    if (At(matches.box, row.prior) != -1) continue;
    const auto best = std::ranges::max_element(row.overlaps);
    if (*best < param.overlap_threshold()) continue;
    At(matches.box, row.prior) = static_cast<int>(best - row.overlaps.begin());
    ++matches.matched;
  }
  return matches;
}

template std::vector<std::vector<GivenBox>> BoxesOf(const LayerSpec&, const Blob<float>&, Stream&,
                                                    int64_t, const MultiBoxLossParameter&);
template std::vector<std::vector<GivenBox>> BoxesOf(const LayerSpec&, const Blob<double>&, Stream&,
                                                    int64_t, const MultiBoxLossParameter&);

}  // namespace carafe
