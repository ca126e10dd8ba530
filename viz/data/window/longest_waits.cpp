#include "viz/data/window/longest_waits.h"

#include <algorithm>
#include <tuple>

namespace lockstep::viz {

std::optional<Finding> LongWait::place(const Timeline& timeline) const {
  const RankTimeline* of = timeline.find_rank(rank);
  const Lane* lane = of ? of->compute() : nullptr;
  if (!lane) return {};
  return Finding{.kind = Finding::Kind::idle,
                 .rank = of,
                 .lane = lane,
                 .span = {.start = piece.time.start, .end = piece.time.end},
                 .piece = piece,
                 .axis = axis};
}

std::vector<LongWait> longest_waits(const Timeline& timeline, const ExplainedStep& step,
                                    std::size_t most) {
  const auto& axes = step.account.axes;
  std::vector<LongWait> waits;
  for (const RankAccount& rank : step.account.ranks)
    for (const StepPiece& piece : rank.pieces)
      if (is_exposed(piece.part) || is_bubble(piece.part))
        waits.push_back({.rank = rank.rank, .piece = piece});
  const std::size_t count = std::min(most, waits.size());
  std::ranges::partial_sort(waits, waits.begin() + static_cast<std::ptrdiff_t>(count), {},
                            [](const LongWait& wait) {
                              return std::tuple{-wait.duration(), wait.piece.time.start, wait.rank};
                            });
  waits.resize(count);
  for (LongWait& wait : waits) {
    if (wait.piece.axis >= 0) wait.axis = axes[static_cast<std::size_t>(wait.piece.axis)];
    if (const auto place = wait.place(timeline)) wait.awaited = awaited_rank(timeline, *place);
  }
  return waits;
}

const std::vector<LongWait>* LongestWaits::of(Model& model) {
  StepKey key = step_key(model);
  if (!waits_ || !(key == key_)) {
    waits_.reset();
    key_ = std::move(key);
    const StepWindow* window = model.timeline.find_step(key_.step);
    const ExplainedStep* step = window ? model.explanations.find(model.timeline, *window) : nullptr;
    if (!step) return nullptr;
    waits_ = longest_waits(model.timeline, *step, most);
  }
  return &*waits_;
}

}  // namespace lockstep::viz
