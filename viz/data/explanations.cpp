#include "viz/data/explanations.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "core/timeline/visit_band.h"
#include "viz/data/folding.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_steps = 512;      // kept; more than a window shows
constexpr std::size_t most_large_steps = 8;  // the same, of those that need much memory

/// Describes the action whose result the rank waits for: "the backward of microbatch 0 on stage 1".
std::string awaited_words(const IdleInterval& idle) {
  if (idle.stage < 0) return "an earlier action";
  const char* name = idle.category == Category::forward          ? "forward"
                     : idle.category == Category::backward_input ? "input gradient"
                                                                 : "backward";
  return fmt::format("the {} of microbatch {} on stage {}", name, idle.microbatch, idle.stage);
}

}  // namespace

bool is_small(const Timeline& timeline, const StepWindow& step, std::ptrdiff_t most) {
  std::ptrdiff_t left = most;
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

Timeline copy_of_step(const Timeline& timeline, const StepWindow& step) {
  Timeline copy;
  copy.run() = timeline.run();
  // The names keep their ids.
  for (NameId id = copy.name_count(); id < timeline.name_count(); ++id)
    copy.intern(timeline.name(id));
  for (const auto& rank : timeline.ranks()) {
    copy.rank(rank->rank);
    for (const auto& lane : rank->lanes) {
      copy.lane(rank->rank, lane->tid());
      for (const Band band : {Band::step, Band::action})
        visit_band(*lane, band, {step.start, step.end},
                   [&](const TimelineSpan& span) { copy.add(rank->rank, lane->tid(), span); });
    }
  }
  copy.settle();
  return copy;
}

void Explanations::update(std::chrono::milliseconds budget) {
  if (steps_.size() >= most_steps || large_steps_ >= most_large_steps) {
    steps_.clear();
    large_steps_ = 0;
  }
  if (job_ && job_->done.load(std::memory_order_acquire)) {
    steps_.insert_or_assign(job_->step, std::move(job_->result));
    ++large_steps_;
    job_.reset();
  }
  until_ = Clock::now() + budget;
  patient_ = budget >= std::chrono::minutes{1};
  computed_ = behind_ = false;
}

const ExplainedStep* Explanations::find(const Timeline& timeline, const StepWindow& step) {
  if (const auto found = steps_.find(step.step); found != steps_.end()) return &found->second;
  if (!timeline.step_complete(step)) return nullptr;
  if (computed_ && Clock::now() >= until_) {
    behind_ = true;
    return nullptr;
  }
  ExplainedStep explained{.step = step.step};
  if (is_small(timeline, step)) {
    computed_ = true;
    explained.idle = idle_intervals(timeline, step.step);
    explained.path = critical_path(timeline, step.step);
    explained.in_flight = microbatches_in_flight(timeline, step.step);
    explained.chunks = most_chunks(timeline, step.step);
  } else if (patient_ && is_small(timeline, step, most_spans)) {
    explained.idle = idle_intervals(timeline, step.step);
    explained.in_flight = microbatches_in_flight(timeline, step.step);
    explained.chunks = most_chunks(timeline, step.step);
  } else if (is_small(timeline, step, most_spans)) {
    if (job_) return nullptr;
    job_ = std::make_shared<Job>();
    job_->step = step.step;
    job_->timeline = copy_of_step(timeline, step);
    std::thread{[job = job_] {
      job->result.step = job->step;
      job->result.idle = idle_intervals(job->timeline, job->step);
      job->result.in_flight = microbatches_in_flight(job->timeline, job->step);
      job->result.chunks = most_chunks(job->timeline, job->step);
      job->done.store(true, std::memory_order_release);
    }}.detach();
    return nullptr;
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
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ",
                         name_of(static_cast<IdleCause>(cause)), duration_words(causes[cause]));
  }
  return words;
}

}  // namespace lockstep::viz
