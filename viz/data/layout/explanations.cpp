#include "viz/data/layout/explanations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "viz/data/layout/folding.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_steps = 512;      // steps kept; more than a window shows
constexpr std::size_t most_large_steps = 8;  // large steps kept, which need much memory
constexpr std::size_t most_pieces = 4'000'000;

/// Describes the action whose result the rank waits for: "the backward of microbatch 0 on stage 1".
std::string awaited_words(const StepPiece& piece) {
  if (piece.stage < 0) return "an action of another stage";
  const char* name = piece.category == Category::forward          ? "forward"
                     : piece.category == Category::backward_input ? "input gradient"
                                                                  : "backward";
  return fmt::format("the {} of microbatch {} on stage {}", name, piece.microbatch, piece.stage);
}

/// Adds the kernels of a lane to a copy, merged by step: only the times at which they run matter.
void copy_kernels(const Lane& lane, int rank, const Interval& window, Timeline& copy) {
  std::map<int, std::vector<Interval>> by_step;
  visit_band(lane, Band::kernel, window, [&](const TimelineSpan& span) {
    by_step[span.step].push_back({span.start, span.end});
  });
  for (auto& [step, times] : by_step)
    for (const Interval& time : merged(std::move(times))) {
      TimelineSpan span{.start = time.start, .end = time.end, .step = step};
      span.category = Category::kernel;
      copy.add(rank, lane.tid(), span);
    }
}

/// Returns the time from the first to the last of a window's messages that are in flight then.
Interval with_messages(const Timeline& timeline, Interval window) {
  Interval whole = window;
  const auto& messages = timeline.messages();
  auto at =
      std::partition_point(messages.begin(), messages.end(), [&](const TimelineMessage& message) {
        return message.sent < window.start - timeline.longest_message();
      });
  for (; at != messages.end() && at->sent < window.end; ++at) {
    if (at->received <= window.start) continue;
    whole = {std::min(whole.start, at->sent), std::max(whole.end, at->received)};
  }
  return whole;
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

const StepPiece* ExplainedStep::piece_at(int rank, double time) const {
  const RankAccount* found = account.find(rank);
  if (!found) return nullptr;
  const auto at = std::ranges::partition_point(found->pieces, [&](const StepPiece& piece) {
    return static_cast<double>(piece.time.end) <= time;
  });
  if (at == found->pieces.end() || static_cast<double>(at->time.start) > time) return nullptr;
  return &*at;
}

Timeline copy_of_step(const Timeline& timeline, const StepWindow& step) {
  Timeline copy;
  copy.run() = timeline.run();
  for (const auto& [first, prediction] : timeline.predictions()) copy.predict(prediction);
  // Names keep their ids.
  for (NameId id = copy.name_count(); id < timeline.name_count(); ++id)
    copy.intern(timeline.name(id));
  const Interval window{step.start, step.end};
  const Interval around = with_messages(timeline, window);
  for (const auto& rank : timeline.ranks()) {
    for (const auto& lane : rank->lanes) {
      copy.lane(rank->rank, lane->tid());
      const auto add = [&](const TimelineSpan& span) { copy.add(rank->rank, lane->tid(), span); };
      visit_band(*lane, Band::step, window, add);
      visit_band(*lane, Band::action, lane->is_compute() ? window : around, add);
      copy_kernels(*lane, rank->rank, window, copy);
    }
  }
  copy.settle();
  return copy;
}

void Explanations::update(std::chrono::milliseconds budget) {
  if (steps_.size() >= most_steps || large_steps_ >= most_large_steps || pieces_ >= most_pieces) {
    steps_.clear();
    large_steps_ = pieces_ = 0;
  }
  if (job_ && job_->done.load(std::memory_order_acquire)) {
    for (const RankAccount& rank : job_->result.account.ranks) pieces_ += rank.pieces.size();
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
    explained.account = step_account(timeline, step.step);
    explained.path = critical_path(timeline, step.step);
    explained.in_flight = microbatches_in_flight(timeline, step.step);
    explained.chunks = most_chunks(timeline, step.step);
  } else if (patient_ && is_small(timeline, step, most_spans)) {
    explained.account = step_account(timeline, step.step);
    explained.in_flight = microbatches_in_flight(timeline, step.step);
    explained.chunks = most_chunks(timeline, step.step);
  } else if (is_small(timeline, step, most_spans)) {
    if (job_) return nullptr;
    job_ = std::make_shared<Job>();
    job_->step = step.step;
    job_->timeline = copy_of_step(timeline, step);
    std::thread{[job = job_] {
      job->result.step = job->step;
      job->result.account = step_account(job->timeline, job->step);
      job->result.in_flight = microbatches_in_flight(job->timeline, job->step);
      job->result.chunks = most_chunks(job->timeline, job->step);
      job->done.store(true, std::memory_order_release);
    }}.detach();
    return nullptr;
  }
  for (const RankAccount& rank : explained.account.ranks) pieces_ += rank.pieces.size();
  return &steps_.emplace(step.step, std::move(explained)).first->second;
}

std::string piece_title(const StepPiece& piece, const std::string& axis) {
  const std::string part = name_of(piece.part);
  if (is_exposed(piece.part)) return "exposed wait: " + part + ", " + axis;
  return is_bubble(piece.part) ? "bubble: " + part : part;
}

std::string piece_sentence(const StepPiece& piece, const std::string& axis) {
  const std::string awaited = awaited_words(piece);
  switch (piece.part) {
    case StepPart::compute:
      return "No named span covers this time; on the modelled clock it is compute, because the "
             "host takes no time.";
    case StepPart::optimizer:
      return "The rank updates its parameters.";
    case StepPart::transfer:
      return fmt::format("Compute waits for {} while bytes move.", axis);
    case StepPart::latency:
      return fmt::format("Compute waits for {}: a message is on its way, but no bytes arrive yet.",
                         axis);
    case StepPart::late_peer:
      return fmt::format(
          "Compute waits for {}, but no message is on its way: a peer has not sent yet.", axis);
    case StepPart::cool_down:
      return fmt::format(
          "This rank waits for {}. No rank has begun this step's actions: the pipeline drains from "
          "the step before.",
          awaited);
    case StepPart::warm_up:
      return fmt::format(
          "This rank waits for {} before it runs its first action of the step: the pipeline fills.",
          awaited);
    case StepPart::waiting:
      return fmt::format("This rank waits for {}, whose result had not been computed yet.",
                         awaited);
    case StepPart::other:
      break;
  }
  return "The trace records neither work nor a wait here; on the wall clock this is the host's "
         "time.";
}

}  // namespace lockstep::viz
