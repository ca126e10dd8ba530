#include "viz/read/kineto/rank_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "viz/read/kineto/numbers.h"

namespace lockstep::kineto {
namespace {

constexpr std::size_t longest_lane_name = 64;  // bytes

std::vector<bool> call_events(const Trace& trace, const RankCalls& calls) {
  std::vector<bool> is_call(trace.events.size());
  for (const Call& call : calls.calls) is_call[call.event] = true;
  return is_call;
}

/// Returns whether an event is an annotation that find_actions() turned into an action.
bool is_action(const Trace& trace, const Event& event) {
  return event.kind == Event::Kind::annotation &&
         std::ranges::any_of(pipeline_labels(trace.name(event)), [](const PipelineLabel& label) {
           return label.kind == PipelineLabel::Kind::action;
         });
}

bool is_optimizer(const std::string& annotation) {
  return annotation.starts_with("Optimizer.step");
}

std::string action_name(const Trace& trace, const Action& action) {
  if (action.part != 0) return trace.name(action.part);
  if (action.stage < 0)
    return fmt::format("{} {}", lockstep::name_of(action.category), action.microbatch);
  return fmt::format("PP:{}{}{}", action.stage, letter_of(action.category), action.microbatch);
}

class RankLanes {
 public:
  RankLanes(const Import& import, std::size_t index, const LatePeers& late,
            const KnownMessages& messages, Timeline& timeline)
      : trace_(import.traces[index]),
        calls_(import.calls[index]),
        actions_(import.actions[index]),
        rank_(import.numbers[index]),
        has_kernels_(trace_.has_kernels()),
        is_call_(call_events(trace_, calls_)),
        layout_(lay_out(trace_, calls_, is_call_)),
        late_(late),
        messages_(messages),
        timeline_(timeline),
        communicates_(trace_.tracks.size()) {
    for (const Call& call : calls_.calls) {
      const std::uint16_t track = trace_.events[call.event].track;
      communicates_[track] = track != layout_.compute;
    }
  }

  void fill() {
    for (std::size_t lane = 0; lane < layout_.names.size(); ++lane)
      timeline_.lane(rank_, static_cast<int>(lane))
          .set_name(layout_.names[lane].substr(0, longest_lane_name));
    add_events();
    add_actions();
    if (has_kernels_) add_gpu_optimizer();
    add_steps();
    for (std::size_t i = 0; i < calls_.calls.size(); ++i) add_call(i);
    add_waits();
    timeline_.end(rank_, spans_);
  }

 private:
  void add(int lane, const TimelineSpan& span) {
    timeline_.add(rank_, lane, span);
    ++spans_;
  }

  void add_wait(int lane, TimelineSpan span, const Interval& time) {
    span.start = time.start;
    span.end = time.end;
    span.category = Category::wait;
    span.bytes = -1;
    add(lane, span);
  }

  void add_events() {
    std::vector<Interval> busy;
    std::vector<Interval> running(trace_.tracks.size());  // the last operator, by track
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (is_call_[i] || event.kind == Event::Kind::gpu_annotation || is_action(trace_, event))
        continue;
      const Category category = category_of(event);
      const int lane = event.kind == Event::Kind::python ? layout_.of_python[event.track]
                                                         : layout_.of_track[event.track];
      if (category == Category::step || lane < 0) continue;
      if (computes(category) && trace_.tracks[event.track].gpu) {
        busy.push_back({event.start, event.end});
      } else if (event.kind == Event::Kind::op && computes(category)) {
        // An operator may wait between the operators that it calls, so only the innermost count.
        Interval& last = running[event.track];
        if (event.start >= last.end) busy.push_back(last);
        last = {event.start, event.end};
      }
      if (!has_kernels_ && is_c10d(trace_.name(event))) {
        blocking_.push_back(i);
        continue;
      }
      TimelineSpan span{
          .start = event.start, .end = event.end, .bytes = event.bytes, .step = calls_.step_of[i]};
      span.name = timeline_.intern(trace_.name(event));
      span.category = category;
      add(lane, span);
    }
    busy.insert(busy.end(), running.begin(), running.end());
    busy_ = merged(std::move(busy));
  }

  Category category_of(const Event& event) const {
    const std::string& name = trace_.name(event);
    switch (event.kind) {
      case Event::Kind::kernel:
        return Category::kernel;
      case Event::Kind::memory:
        return Category::copy;
      case Event::Kind::op:
        return has_kernels_ || is_c10d(name) || communicates_[event.track] ? Category::host
                                                                           : Category::kernel;
      case Event::Kind::annotation:
        if (profiler_step(name)) return Category::step;
        return is_optimizer(name) && !has_kernels_ ? Category::optimizer : Category::host;
      default:
        return Category::host;
    }
  }

  void add_actions() {
    for (const Action& action : actions_.actions) {
      TimelineSpan span{.start = action.time.start,
                        .end = action.time.end,
                        .step = action.step,
                        .stage = action.stage,
                        .microbatch = action.microbatch};
      span.category = action.category;
      span.name = timeline_.intern(action_name(trace_, action));
      add(0, span);
    }
  }

  void add_gpu_optimizer() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind != Event::Kind::gpu_annotation || event.track != layout_.compute ||
          !is_optimizer(trace_.name(event)))
        continue;
      TimelineSpan span{.start = event.start, .end = event.end, .step = calls_.step_of[i]};
      span.name = timeline_.intern(trace_.name(event));
      span.category = Category::optimizer;
      add(0, span);
    }
  }

  /// Returns the times of the steps. On a GPU, a step lasts from the start of its first work there
  /// to the end of its last.
  std::map<int, Interval> step_times() const {
    std::map<int, Interval> times;
    if (!has_kernels_) {
      for (const Step& step : calls_.steps) times.try_emplace(step.step, step.time);
      return times;
    }
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      const int step = calls_.step_of[i];
      if (step < 0 || !trace_.tracks[event.track].gpu || event.kind == Event::Kind::gpu_annotation)
        continue;
      Interval& time = times.try_emplace(step, Interval{event.start, event.end}).first->second;
      time.start = std::min(time.start, event.start);
      time.end = std::max(time.end, event.end);
    }
    return times;
  }

  void add_steps() {
    for (const auto& [step, time] : step_times()) {
      TimelineSpan span{.start = time.start, .end = time.end, .step = step};
      span.name = timeline_.intern("step");
      span.category = Category::step;
      add(0, span);
      steps_.push_back(time);
    }
  }

  TimelineSpan span_of(std::size_t index) {
    const Call& call = calls_.calls[index];
    TimelineSpan span{
        .start = call.time.start, .end = call.time.end, .bytes = call.bytes, .step = call.step};
    span.peer = call.peer;
    if (const auto known = messages_.find(index); known != messages_.end()) {
      span.message = known->second.id;
      if (known->second.peer >= 0) span.peer = known->second.peer;
    }
    if (call.label) {
      span.stage = call.label->stage;
      span.microbatch = call.label->microbatch;
      span.payload =
          call.label->category == Category::forward ? Payload::activations : Payload::gradients;
    } else {
      span.group = timeline_.intern(call.group);
      span.group_size = call.group_size;
    }
    if (!is_message(call.kind))
      span.sequence = index_from(call.sequence >= 0 ? call.sequence : unnumbered_++);
    const bool show_kernel = call.kernel && !call.label;
    span.name =
        timeline_.intern(show_kernel ? trace_.name(trace_.events[call.event]) : name_of(call.kind));
    span.category = Category::communication;
    span.role = call.kind == CallKind::send      ? MessageRole::sends
                : call.kind == CallKind::receive ? MessageRole::receives
                                                 : MessageRole::none;
    return span;
  }

  void add_call(std::size_t index) {
    const TimelineSpan span = spans_of_calls_.emplace_back(span_of(index));
    add(layout_.of_call[index], span);
    const auto late = late_.find(index);
    if (late == late_.end()) return;
    TimelineSpan wait = span;
    wait.peer = late->second.rank;
    add_wait(layout_.of_call[index], wait, {span.start, late->second.start});
  }

  /// Adds the waits to the compute lane: those in operators that block the thread, and those in
  /// which it is idle.
  void add_waits() {
    std::vector<Interval> blocked;
    for (const std::size_t i : blocking_) {
      const Event& event = trace_.events[i];
      if (!is_message(call_kind_of(trace_.name(event)))) continue;
      blocked.push_back({event.start, event.end});
      add_wait(0, span_of_blocking(i), blocked.back());
    }
    const Intervals idle =
        difference(difference(merged(steps_), busy_), merged(std::move(blocked)));
    for (const Wait& wait : waits_in(idle, calls_.calls, late_)) {
      TimelineSpan span = spans_of_calls_[wait.call];
      if (wait.late_rank >= 0) span.peer = wait.late_rank;
      add_wait(0, span, wait.time);
    }
  }

  /// Returns the span of the call that an operator c10d::* issued, because it has the labels. If
  /// there is none, returns a new span.
  TimelineSpan span_of_blocking(std::size_t index) {
    const Event& event = trace_.events[index];
    const CallKind kind = call_kind_of(trace_.name(event));
    auto issued = std::ranges::lower_bound(calls_.calls, event.start, {},
                                           [](const Call& call) { return call.time.start; });
    for (; issued != calls_.calls.end() && issued->time.start <= event.end; ++issued)
      if (issued->kind == kind)
        return spans_of_calls_[static_cast<std::size_t>(issued - calls_.calls.begin())];
    TimelineSpan span{.step = calls_.step_of[index], .peer = event.peer};
    span.name = timeline_.intern("wait");
    return span;
  }

  const Trace& trace_;
  const RankCalls& calls_;
  const RankActions& actions_;
  const int rank_;
  const bool has_kernels_;
  const std::vector<bool> is_call_;  ///< by event
  const LaneLayout layout_;
  const LatePeers& late_;
  const KnownMessages& messages_;
  Timeline& timeline_;
  std::vector<bool> communicates_;  ///< by track: whether it has calls and is not the compute lane
  std::vector<TimelineSpan> spans_of_calls_;
  std::vector<std::size_t> blocking_;  ///< operators c10d::*, which block their thread
  std::vector<Interval> steps_;
  Intervals busy_;               ///< when a kernel or an innermost operator runs
  std::int64_t unnumbered_ = 0;  ///< collectives without a sequence number
  std::int64_t spans_ = 0;
};

}  // namespace

void fill_rank(const Import& import, std::size_t index, const LatePeers& late,
               const KnownMessages& messages, Timeline& timeline) {
  RankLanes{import, index, late, messages, timeline}.fill();
}

}  // namespace lockstep::kineto
