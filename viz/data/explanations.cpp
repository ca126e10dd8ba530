#include "viz/data/explanations.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "viz/data/folding.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_steps = 512;  // kept; more than a window shows

/// Describes the action whose result the rank waits for: "the backward of microbatch 0 on stage 1".
std::string awaited_words(const IdleInterval& idle) {
  if (idle.stage < 0) return "an earlier action";
  const char* name = idle.category == Category::forward          ? "forward"
                     : idle.category == Category::backward_input ? "input gradient"
                                                                 : "backward";
  return fmt::format("the {} of microbatch {} on stage {}", name, idle.microbatch, idle.stage);
}

}  // namespace

bool is_small(const Timeline& timeline, const StepWindow& step) {
  std::ptrdiff_t left = most_explained_spans;
  for (const auto& rank : timeline.ranks()) {
    const Lane* lane = rank->compute();
    if (!lane) continue;
    for (const SpanRow& row : lane->rows(Band::action)) {
      const auto first = first_ending_after(row, static_cast<double>(step.start));
      const auto last = std::partition_point(
          first, row.end(), [&](const TimelineSpan& span) { return span.start < step.end; });
      left -= last - first;
      if (left < 0) return false;
    }
  }
  return true;
}

const IdleInterval* ExplainedStep::idle_at(std::size_t rank, double time) const {
  if (rank >= idle.size()) return nullptr;
  const auto after = std::ranges::partition_point(idle[rank], [&](const IdleInterval& each) {
    return static_cast<double>(each.time.end) <= time;
  });
  if (after == idle[rank].end() || static_cast<double>(after->time.start) > time) return nullptr;
  return &*after;
}

void Explanations::update(std::chrono::milliseconds budget) {
  if (steps_.size() >= most_steps) steps_.clear();
  until_ = Clock::now() + budget;
  computed_ = behind_ = false;
}

const ExplainedStep* Explanations::find(const Timeline& timeline, const StepWindow& step) {
  if (const auto found = steps_.find(step.step); found != steps_.end()) return &found->second;
  if (!timeline.step_complete(step)) return nullptr;
  if (computed_ && Clock::now() >= until_) {
    behind_ = true;
    return nullptr;
  }
  ExplainedStep explained;
  if (is_small(timeline, step)) {
    computed_ = true;
    explained.idle = idle_intervals(timeline, step.step);
    explained.path = critical_path(timeline, step.step);
  }
  return &steps_.emplace(step.step, std::move(explained)).first->second;
}

IdleCause main_cause(const IdleInterval& idle) {
  return static_cast<IdleCause>(std::ranges::max_element(idle.causes) - idle.causes.begin());
}

std::string idle_sentence(const IdleInterval& idle) {
  const std::string awaited = awaited_words(idle);
  switch (main_cause(idle)) {
    case IdleCause::warm_up:
      return "The pipeline fills: this rank can start only after " + awaited + ".";
    case IdleCause::cool_down:
      return "The pipeline drains: this rank has run all its actions, and others have not.";
    case IdleCause::waiting:
      return "The schedule has nothing else to run until " + awaited + " is done.";
    case IdleCause::straggler:
      return idle.stage < 0 ? "Actions that take longer than usual keep this rank waiting."
                            : "Actions that take longer than usual delay " + awaited + ".";
    case IdleCause::messages:
      return idle.stage < 0 ? "The time goes to messages between stages."
                            : "Messages between stages delay the result of " + awaited + ".";
    case IdleCause::other:
      break;
  }
  return "Neither actions nor messages explain this time; on the wall clock it is the host's.";
}

std::string cause_words(const IdleTimes& causes) {
  std::array<std::size_t, idle_cause_count> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return causes[a] > causes[b]; });
  std::string words;
  for (const std::size_t cause : order) {
    if (causes[cause] <= 0) continue;
    words +=
        fmt::format("{}{} {}", words.empty() ? "" : ", ", name_of(static_cast<IdleCause>(cause)),
                    duration_words(static_cast<double>(causes[cause])));
  }
  return words;
}

void explain_idle(Finding& finding, const ExplainedStep& step, std::size_t rank, double time) {
  const bool works = (finding.kind == Finding::Kind::span && !finding.open &&
                      finding.span.category != Category::wait) ||
                     finding.kind == Finding::Kind::folded;
  if (works || finding.open) return;
  const IdleInterval* idle = step.idle_at(rank, time);
  if (!idle) return;
  finding.kind = Finding::Kind::idle;
  finding.span = {.start = idle->time.start, .end = idle->time.end};
  finding.idle = *idle;
}

}  // namespace lockstep::viz
