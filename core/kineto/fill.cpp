#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/kineto/import.h"

namespace lockstep::kineto {
namespace {

bool is_message(CallKind kind) {
  return kind == CallKind::send || kind == CallKind::receive;
}

int small(std::int64_t number) {
  return number >= 0 && number <= std::numeric_limits<int>::max() ? static_cast<int>(number) : -1;
}

/// The rank that a call waited for, and until when.
struct Late {
  int peer = -1;
  Picoseconds until = 0;
};

/// What a rank's calls waited for on other ranks, by call.
using LatePeers = std::map<std::size_t, Late>;

/// Finds, for each member of a collective, the member that started last; and for a message, the
/// end that started last. Waits that clocks can't resolve are left out.
std::vector<LatePeers> late_peers(const Import& import) {
  const bool one_clock = have_one_host(import.traces) && !import.alignment.corrected;
  const Picoseconds least = one_clock ? 0 : import.alignment.residual;
  std::vector<LatePeers> late(import.traces.size());
  for (const Match& match : import.matches) {
    const auto time_of = [&](const Match::Member& member) {
      return import.calls[member.rank].calls[member.call].time;
    };
    const auto last = std::ranges::max_element(
        match.members, {}, [&](const auto& member) { return time_of(member).start; });
    for (const Match::Member& member : match.members) {
      const Interval time = time_of(member);
      const Picoseconds until = std::min(time_of(*last).start, time.end);
      if (member.rank == last->rank || until - time.start <= least) continue;
      late[member.rank][member.call] = {import.numbers[last->rank], until};
    }
  }
  return late;
}

/// Fills the lanes of one rank.
class RankLanes {
 public:
  RankLanes(const Import& import, std::size_t index, Timeline& timeline)
      : trace_(import.traces[index]),
        calls_(import.calls[index]),
        actions_(import.actions[index]),
        rank_(import.numbers[index]),
        on_gpu_(std::ranges::any_of(
            trace_.events, [](const Event& each) { return each.kind == Event::Kind::kernel; })),
        timeline_(timeline) {
    is_call_.resize(trace_.events.size());
    communicates_.resize(trace_.tracks.size());
    for (const Call& call : calls_.calls) {
      is_call_[call.event] = true;
      communicates_[trace_.events[call.event].track] = true;
    }
  }

  void set_peer(std::size_t call, int peer) { peers_[call] = peer; }

  void fill(const LatePeers& late) {
    choose_compute();
    number_lanes();
    add_events();
    add_actions();
    add_steps();
    for (std::size_t i = 0; i < calls_.calls.size(); ++i) add_call(i, late);
    add_waits(late);
    timeline_.end(rank_, spans_);
  }

  int lane_of_call(std::size_t call) const { return lane_of_call_[call]; }

 private:
  const std::string& name(const Event& event) const { return trace_.name(event.name); }
  bool is_c10d(const Event& event) const { return name(event).starts_with("c10d::"); }

  void add(int lane, TimelineSpan span) {
    timeline_.add(rank_, lane, span);
    ++spans_;
  }

  /// The compute lane shows the stream with the most work or, without a GPU, the thread that takes
  /// the profiler's steps.
  void choose_compute() {
    std::vector<Picoseconds> work(trace_.tracks.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      const bool counts = on_gpu_ ? event.kind == Event::Kind::kernel && !is_call_[i]
                                  : event.kind == Event::Kind::op;
      if (counts) work[event.track] = plus(work[event.track], event.end - event.start);
      const bool step = !on_gpu_ && event.kind == Event::Kind::annotation &&
                        profiler_step(name(event)).has_value();
      if (step) work[event.track] = std::numeric_limits<Picoseconds>::max();
    }
    if (!work.empty())
      compute_ = static_cast<std::uint16_t>(std::ranges::max_element(work) - work.begin());
    if (!work.empty()) communicates_[compute_] = false;
  }

  /// Numbers the lanes: compute, other streams, communication, threads of the host.
  void number_lanes() {
    lanes_.resize(trace_.tracks.size(), -1);
    if (trace_.tracks.empty()) return;
    name_lane(0, "compute, " + trace_.tracks[compute_].name);
    lanes_[compute_] = 0;
    std::vector<bool> used(trace_.tracks.size()), python(trace_.tracks.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind == Event::Kind::python) python[event.track] = true;
      if (event.kind != Event::Kind::python && event.kind != Event::Kind::gpu_annotation &&
          !is_call_[i])
        used[event.track] = true;
    }
    for (std::size_t track = 0; track < lanes_.size(); ++track)
      if (trace_.tracks[track].gpu && used[track] && lanes_[track] < 0)
        name_lane(lanes_[track] = next_lane_++, trace_.tracks[track].name);
    lane_of_call_.resize(calls_.calls.size(), -1);
    std::map<std::pair<std::string, std::string>, int> channels;
    for (std::size_t i = 0; i < calls_.calls.size(); ++i) {
      const Call& call = calls_.calls[i];
      const Track& track = trace_.tracks[trace_.events[call.event].track];
      const std::string what = is_message(call.kind) ? name_of(call.kind)
                               : call.group.empty()  ? "collectives"
                                                     : call.group;
      const auto [at, fresh] =
          channels.try_emplace({track.gpu ? track.name : "", what}, next_lane_);
      if (fresh) name_lane(next_lane_++, track.gpu ? what + ", " + track.name : what);
      lane_of_call_[i] = at->second;
    }
    for (std::size_t track = 0; track < lanes_.size(); ++track)
      if (!trace_.tracks[track].gpu && used[track] && lanes_[track] < 0)
        name_lane(lanes_[track] = next_lane_++, trace_.tracks[track].name);
    python_lanes_.resize(trace_.tracks.size(), -1);
    for (std::size_t track = 0; track < lanes_.size(); ++track)
      if (python[track])
        name_lane(python_lanes_[track] = next_lane_++,
                  fmt::format("Python {}", trace_.tracks[track].tid));
  }

  void name_lane(int lane, const std::string& text) {
    timeline_.lane(rank_, lane).set_name(text.substr(0, 64));
  }

  void add_events() {
    std::vector<Interval> busy;
    std::vector<Interval> running(trace_.tracks.size());  // operators that may have others in them
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (is_call_[i] || event.kind == Event::Kind::gpu_annotation) continue;
      TimelineSpan span{
          .start = event.start, .end = event.end, .bytes = event.bytes, .step = calls_.step_of[i]};
      span.category = category_of(event);
      if (span.category == Category::step || !pipeline_action(event).empty()) continue;
      const bool python = event.kind == Event::Kind::python;
      const int lane = python ? python_lanes_[event.track] : lanes_[event.track];
      if (lane < 0) continue;
      if (computes(span.category) && trace_.tracks[event.track].gpu) {
        busy.push_back({event.start, event.end});
      } else if (event.kind == Event::Kind::op && computes(span.category)) {
        // An operator may wait between those that it calls, so only the innermost count.
        Interval& before = running[event.track];
        if (event.start >= before.end) busy.push_back(before);
        before = {event.start, event.end};
      }
      span.name = timeline_.intern(name(event));
      if (!on_gpu_ && is_c10d(event)) {  // it blocks the thread
        blocked_.push_back(i);
        continue;
      }
      add(lane, span);
    }
    busy.insert(busy.end(), running.begin(), running.end());
    busy_ = merged(std::move(busy));
  }

  Category category_of(const Event& event) const {
    switch (event.kind) {
      case Event::Kind::kernel:
        return Category::kernel;
      case Event::Kind::memory:
        return Category::copy;
      case Event::Kind::op:
        return on_gpu_ || is_c10d(event) || communicates_[event.track] ? Category::host
                                                                       : Category::kernel;
      case Event::Kind::annotation:
        if (profiler_step(name(event))) return Category::step;
        if (name(event).starts_with("Optimizer.step"))
          return on_gpu_ ? Category::host : Category::optimizer;
        return Category::host;
      default:
        return Category::host;
    }
  }

  std::vector<PipelineLabel> pipeline_action(const Event& event) const {
    if (event.kind != Event::Kind::annotation) return {};
    std::vector<PipelineLabel> labels = pipeline_labels(name(event));
    std::erase_if(labels, [](const PipelineLabel& label) {
      return label.kind != PipelineLabel::Kind::action;
    });
    return labels;
  }

  void add_actions() {
    for (const Action& action : actions_.actions) {
      TimelineSpan span{.start = action.time.start,
                        .end = action.time.end,
                        .step = action.step,
                        .stage = action.stage,
                        .microbatch = action.microbatch};
      span.category = action.category;
      const std::string text =
          action.part != 0 ? trace_.name(action.part)
          : action.stage >= 0
              ? fmt::format("PP:{}{}{}", action.stage, letter_of(action.category),
                            action.microbatch)
              : fmt::format("{} {}", lockstep::name_of(action.category), action.microbatch);
      span.name = timeline_.intern(text);
      add(0, span);
    }
    if (on_gpu_) add_gpu_optimizer();
  }

  void add_gpu_optimizer() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      if (event.kind != Event::Kind::gpu_annotation || event.track != compute_ ||
          !name(event).starts_with("Optimizer.step"))
        continue;
      TimelineSpan span{.start = event.start, .end = event.end, .step = calls_.step_of[i]};
      span.name = timeline_.intern(name(event));
      span.category = Category::optimizer;
      add(0, span);
    }
  }

  /// On a GPU, a step lasts from the start of its first work there to the end of its last.
  void add_steps() {
    std::map<int, Interval> times;
    if (on_gpu_) {
      for (std::size_t i = 0; i < trace_.events.size(); ++i) {
        const Event& event = trace_.events[i];
        const int step = calls_.step_of[i];
        if (step < 0 || !trace_.tracks[event.track].gpu ||
            event.kind == Event::Kind::gpu_annotation)
          continue;
        const auto [at, fresh] = times.try_emplace(step, Interval{event.start, event.end});
        at->second.start = std::min(at->second.start, event.start);
        at->second.end = std::max(at->second.end, event.end);
      }
    } else {
      for (const Step& step : calls_.steps) times.try_emplace(step.step, step.time);
    }
    for (const auto& [step, time] : times) {
      TimelineSpan span{.start = time.start, .end = time.end, .step = step};
      span.name = timeline_.intern("step");
      span.category = Category::step;
      add(0, span);
      steps_.push_back(time);
    }
  }

  TimelineSpan span_of(std::size_t index) {
    const Call& call = calls_.calls[index];
    const Event& event = trace_.events[call.event];
    TimelineSpan span{
        .start = call.time.start, .end = call.time.end, .bytes = call.bytes, .step = call.step};
    const auto peer = peers_.find(index);
    span.peer = peer != peers_.end() ? peer->second : call.peer;
    if (call.label) {
      span.stage = call.label->stage;
      span.microbatch = call.label->microbatch;
    } else {
      span.group = timeline_.intern(call.group);
      span.group_size = call.group_size;
    }
    if (!is_message(call.kind))
      span.sequence = small(call.sequence >= 0 ? call.sequence : count_++);
    const bool kernel = event.kind == Event::Kind::kernel && !call.label;
    span.name = timeline_.intern(kernel ? name(event) : name_of(call.kind));
    span.category = Category::communication;
    return span;
  }

  void add_call(std::size_t index, const LatePeers& late) {
    const TimelineSpan span = spans_of_calls_.emplace_back(span_of(index));
    add(lane_of_call_[index], span);
    const auto waited = late.find(index);
    if (waited == late.end()) return;
    TimelineSpan wait = span;
    wait.end = waited->second.until;
    wait.peer = waited->second.peer;
    wait.category = Category::wait;
    wait.bytes = -1;
    add(lane_of_call_[index], wait);
  }

  /// Adds the waits to the compute lane. Where it does not compute, it waits for the calls that end
  /// there: the rank goes on after them. Sends are not waited for, except by a call that blocks.
  void add_waits(const LatePeers& late) {
    std::vector<std::pair<Interval, TimelineSpan>> waits;
    for (const std::size_t i : blocked_) {
      const Event& event = trace_.events[i];
      const CallKind kind = call_kind_of(name(event));
      if (!is_message(kind)) continue;
      TimelineSpan wait{
          .start = event.start, .end = event.end, .step = calls_.step_of[i], .peer = event.peer};
      // The span of gloo that it issued has the labels.
      auto issued = std::ranges::lower_bound(calls_.calls, event.start, {},
                                             [](const Call& call) { return call.time.start; });
      for (; issued != calls_.calls.end() && issued->time.start <= event.end; ++issued) {
        if (issued->kind != kind) continue;
        wait = spans_of_calls_[static_cast<std::size_t>(issued - calls_.calls.begin())];
        wait.start = event.start;
        wait.end = event.end;
        break;
      }
      waits.push_back({{event.start, event.end}, wait});
    }
    std::vector<std::size_t> by_end;
    for (std::size_t i = 0; i < calls_.calls.size(); ++i)
      if (calls_.calls[i].kind != CallKind::send) by_end.push_back(i);
    std::ranges::stable_sort(by_end, {}, [&](std::size_t i) { return calls_.calls[i].time.end; });
    std::vector<Interval> blocked;
    for (const auto& [time, wait] : waits) blocked.push_back(time);
    const Intervals idle =
        difference(difference(merged(steps_), busy_), merged(std::move(blocked)));
    auto next = by_end.begin();
    for (const Interval& gap : idle) {
      Picoseconds done = gap.start;
      for (; next != by_end.end() && calls_.calls[*next].time.end <= gap.end; ++next) {
        const Interval& call = calls_.calls[*next].time;
        const Interval time{std::max(done, call.start), call.end};
        if (time.start >= time.end) continue;
        done = time.end;
        // Until the last member has started, the rank waits for it.
        const auto late_one = late.find(*next);
        const Picoseconds until = late_one == late.end()
                                      ? time.start
                                      : std::clamp(late_one->second.until, time.start, time.end);
        TimelineSpan span = spans_of_calls_[*next];
        if (until < time.end) waits.push_back({{until, time.end}, span});
        if (until == time.start) continue;
        span.peer = late_one->second.peer;
        waits.push_back({{time.start, until}, span});
      }
    }
    for (auto& [time, wait] : waits) {
      wait.start = time.start;
      wait.end = time.end;
      wait.category = Category::wait;
      wait.bytes = -1;
      if (wait.name == 0) wait.name = timeline_.intern("wait");
      add(0, wait);
    }
  }

  const Trace& trace_;
  const RankCalls& calls_;
  const RankActions& actions_;
  const int rank_;
  const bool on_gpu_;
  Timeline& timeline_;
  std::vector<bool> is_call_;       ///< by event
  std::vector<bool> communicates_;  ///< by track: other than the compute lane's, gloo's threads
  std::uint16_t compute_ = 0;       ///< the track of the compute lane
  int next_lane_ = 1;
  std::vector<int> lanes_, python_lanes_;  ///< by track
  std::vector<int> lane_of_call_;
  std::map<std::size_t, int> peers_;  ///< by call: known from its match
  std::vector<TimelineSpan> spans_of_calls_;
  std::vector<std::size_t> blocked_;  ///< events c10d::*
  std::vector<Interval> steps_;
  Intervals busy_;  ///< when a kernel or an innermost operator runs
  std::int64_t count_ = 0, spans_ = 0;
};

/// Returns the axes of a device mesh, the outermost first: process groups that torch names
/// mesh_{axis}, if their sizes multiply to the number of ranks.
std::vector<std::pair<std::string, int>> mesh_of(const std::vector<Trace>& traces) {
  constexpr std::string_view prefix = "mesh_";
  struct Axis {
    int stride = 0, size = 0;
    std::string name;
  };
  std::map<std::string, Axis> axes;
  for (const Trace& trace : traces)
    for (const ProcessGroup& group : trace.groups) {
      if (!group.description.starts_with(prefix) || group.ranks.size() < 2) continue;
      const std::string axis = group.description.substr(prefix.size());
      axes[axis] = {group.ranks[1] - group.ranks[0], static_cast<int>(group.ranks.size()), axis};
    }
  std::vector<Axis> sorted;
  std::int64_t product = 1;
  for (const auto& [name, axis] : axes) {
    if (product > std::numeric_limits<int>::max()) return {};
    sorted.push_back(axis);
    product *= axis.size;
  }
  if (product != traces.front().world_size) return {};
  std::ranges::stable_sort(sorted, std::greater{}, &Axis::stride);
  std::vector<std::pair<std::string, int>> mesh;
  for (Axis& axis : sorted) mesh.emplace_back(std::move(axis.name), axis.size);
  return mesh;
}

}  // namespace

void fill(const Import& import, Timeline& timeline) {
  const bool gpu = std::ranges::any_of(import.traces, &Trace::has_gpu);
  RunInfo& run = timeline.run();
  run.tool = "PyTorch";
  run.lesson = "PyTorch";
  run.device = gpu ? "cuda" : "cpu";
  run.clock = "wall";
  run.ranks = static_cast<int>(import.traces.size());
  run.mesh = mesh_of(import.traces);
  run.notes = import.notes;

  const std::vector<LatePeers> late = late_peers(import);
  std::vector<RankLanes> ranks;
  for (std::size_t i = 0; i < import.traces.size(); ++i) ranks.emplace_back(import, i, timeline);
  for (const Match& match : import.matches) {
    if (match.kind != CallKind::send) continue;
    const auto &sender = match.members[0], &receiver = match.members[1];
    ranks[sender.rank].set_peer(sender.call, import.numbers[receiver.rank]);
    ranks[receiver.rank].set_peer(receiver.call, import.numbers[sender.rank]);
  }
  if (import.alignment.collectives + import.alignment.messages > 0 && import.traces.size() > 1)
    run.clock_residual = import.alignment.residual;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].fill(late[i]);
    RankTimeline& rank = timeline.rank(import.numbers[i]);
    rank.clock_moved = import.moved[i];
    rank.clock_drift = import.alignment.ranks[i].drift;
  }
  std::uint64_t id = 0;
  for (const Match& match : import.matches) {
    if (match.kind != CallKind::send) continue;
    const auto &from = match.members[0], &to = match.members[1];
    const Interval& sent = import.calls[from.rank].calls[from.call].time;
    const Interval& received = import.calls[to.rank].calls[to.call].time;
    if (received.end < sent.start) continue;  // the clocks are not aligned
    timeline.flow_start(++id, import.numbers[from.rank], ranks[from.rank].lane_of_call(from.call),
                        sent.start);
    timeline.flow_end(id, import.numbers[to.rank], ranks[to.rank].lane_of_call(to.call),
                      received.end);
  }
  timeline.settle();
}

}  // namespace lockstep::kineto
