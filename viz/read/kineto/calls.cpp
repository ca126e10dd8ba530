#include "viz/read/kineto/calls.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace lockstep::kineto {
namespace {

/// Finds the innermost of the intervals around a point on a track.
template <class Value>
class Enclosing {
 public:
  /// Adds an interval; on each track, intervals must be added in order of their starts.
  void add(std::uint16_t track, Interval time, Value value) {
    by_track_[track].push_back({time, std::move(value)});
  }
  /// Returns the value of the innermost interval around a point, or null.
  const Value* find(const TrackTime& point) const {
    const auto track = by_track_.find(point.track);
    if (track == by_track_.end()) return nullptr;
    const auto& all = track->second;
    auto after = std::ranges::upper_bound(all, point.at, {},
                                          [](const auto& each) { return each.first.start; });
    // Intervals on a track nest, so a few that have already ended may start later than the one
    // around the point.
    for (int looked = 0; after != all.begin() && looked < most_looked_at; ++looked) {
      --after;
      if (after->first.end > point.at) return &after->second;
    }
    return nullptr;
  }

 private:
  static constexpr int most_looked_at = 256;
  std::map<std::uint16_t, std::vector<std::pair<Interval, Value>>> by_track_;
};

class Finder {
 public:
  explicit Finder(const Trace& trace) : trace_(trace), launches_(launches_of(trace)) {}

  RankCalls find() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) read(i);
    find_steps();
    set_steps();
    const bool has_kernels = trace_.has_kernels();
    const bool has_gloo =
        std::ranges::any_of(trace_.events, [&](const Event& event) { return is_gloo(event); });
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const Event& event = trace_.events[i];
      const bool kernel =
          event.kind == Event::Kind::kernel && is_communication_kernel(trace_.name(event));
      const bool c10d =
          !has_kernels && !has_gloo && event.kind == Event::Kind::op && is_c10d(trace_.name(event));
      if (kernel || is_gloo(event) || c10d) add_call(i);
    }
    return std::move(found_);
  }

 private:
  bool is_gloo(const Event& event) const {
    return event.kind == Event::Kind::annotation && trace_.name(event).starts_with("gloo:");
  }

  void read(std::size_t index) {
    const Event& event = trace_.events[index];
    const std::string& name = trace_.name(event);
    const Interval time{event.start, event.end};
    if (event.kind == Event::Kind::annotation) {
      if (const auto step = profiler_step(name)) found_.steps.push_back({*step, time});
      for (const PipelineLabel& label : pipeline_labels(name))
        labels_.add(event.track, time, label);
    }
    if (event.kind != Event::Kind::op) return;
    if (event.communication >= 0) parameters_.add(event.track, time, event.communication);
    if (!is_c10d(name)) return;
    c10d_.add(event.track, time, index);
    const CallKind kind = call_kind_of(name);
    if (!is_message(kind)) issued_.push_back({index, kind});
  }

  void find_steps() {
    found_.has_steps = !found_.steps.empty();
    if (found_.has_steps) {
      std::ranges::stable_sort(found_.steps, {}, [](const Step& step) { return step.time.start; });
      return;
    }
    if (trace_.events.empty()) return;
    Interval whole{trace_.events.front().start, trace_.events.front().end};
    for (const Event& event : trace_.events) whole.end = std::max(whole.end, event.end);
    found_.steps.push_back({0, whole});
  }

  void set_steps() {
    found_.step_of.resize(trace_.events.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i)
      found_.step_of[i] = found_.step_at(issue_of(trace_.events[i]).at);
  }

  /// Returns the point on the host at which an event was issued: the launch of work on the GPU, or
  /// the start of any other event.
  TrackTime issue_of(const Event& event) const {
    if (event.correlation >= 0 && trace_.tracks[event.track].gpu)
      if (const auto launch = launches_.find(event.correlation); launch != launches_.end())
        return launch->second;
    return {event.track, event.start};
  }

  void add_call(std::size_t index) {
    const Event& event = trace_.events[index];
    Call call{.event = index, .time = {event.start, event.end}, .step = found_.step_of[index]};
    TrackTime issue = issue_of(event);
    call.kind = call_kind_of(trace_.name(event));
    call.bytes = event.bytes;
    call.kernel = event.kind == Event::Kind::kernel;
    if (event.kind == Event::Kind::annotation) {
      if (const Event* op = issuing_op(event, call.kind)) {
        issue = {op->track, op->start};
        call.step = found_.step_at(issue.at);
        call.kind = call_kind_of(trace_.name(*op));
        call.peer = peer_of(*op);
        if (call.bytes < 0) call.bytes = op->bytes;
      }
    } else if (event.kind == Event::Kind::op) {
      call.peer = peer_of(event);
    }
    std::int32_t parameters = event.communication;
    if (parameters < 0)
      if (const std::int32_t* around = parameters_.find(issue)) parameters = *around;
    if (parameters >= 0)
      describe(trace_.communications[static_cast<std::size_t>(parameters)], call);
    if (call.members.empty()) describe_by_process(call);
    if (const PipelineLabel* label = labels_.find(issue)) set_label(*label, call);
    found_.calls.push_back(std::move(call));
  }

  /// Labels a message that was issued within a pipeline's SEND or RECV. The label also decides
  /// whether a kernel such as ncclDevKernel_SendRecv sends or receives.
  static void set_label(const PipelineLabel& label, Call& call) {
    const bool sends = label.kind == PipelineLabel::Kind::send;
    const bool receives = label.kind == PipelineLabel::Kind::receive;
    if (!is_message(call.kind) && call.kind != CallKind::send_receive) return;
    if (!sends && !receives) return;
    call.label = label;
    call.kind = sends ? CallKind::send : CallKind::receive;
  }

  /// Returns the operator that issued a span of gloo, or null. The span of a message begins within
  /// its operator. A collective runs later, in order of issue, on one of gloo's threads.
  const Event* issuing_op(const Event& span, CallKind kind) {
    if (const std::size_t* around = c10d_.find({span.track, span.start}))
      return &trace_.events[*around];
    // ProcessGroupGloo implements a reduce-scatter as an all-reduce, and names the span
    // accordingly.
    while (first_issued_ < issued_.size() && issued_[first_issued_].has_span) ++first_issued_;
    const auto rest = issued_.begin() + static_cast<std::ptrdiff_t>(first_issued_);
    const auto issued = std::find_if(rest, issued_.end(), [&](const Issued& each) {
      return !each.has_span && (each.kind == kind || (each.kind == CallKind::reduce_scatter &&
                                                      kind == CallKind::all_reduce));
    });
    if (issued == issued_.end() || trace_.events[issued->event].start > span.start) return nullptr;
    issued->has_span = true;
    return &trace_.events[issued->event];
  }

  /// Returns the global rank of a message's other end; -1 if it is unknown. The operator states a
  /// rank within a process group but not the group, so the rank is known only if there is one
  /// group.
  int peer_of(const Event& op) const {
    if (op.peer < 0 || trace_.groups.size() > 1) return -1;
    if (trace_.groups.empty() || trace_.groups.front().ranks.empty()) return op.peer;
    const std::vector<int>& ranks = trace_.groups.front().ranks;
    const auto place = static_cast<std::size_t>(op.peer);
    return place < ranks.size() ? ranks[place] : -1;
  }

  void describe(const Communication& given, Call& call) const {
    if (given.operation != 0) {
      const CallKind kind = call_kind_of(trace_.name(given.operation));
      if (kind != CallKind::other) call.kind = kind;
    }
    const std::string& group = trace_.name(given.group);
    const std::string& description = trace_.name(given.description);
    call.group = !description.empty() && description != "undefined" ? description : group;
    call.group_size = given.group_size;
    call.sequence = given.sequence;
    call.comms_id = trace_.name(given.comms_id);
    if (group.empty() && given.members == 0) {
      if (given.group_size > 0 && given.group_size == trace_.world_size) call.members = "world";
    } else {
      call.members = group + ' ' + trace_.name(given.members);
    }
    const std::int64_t size = element_size(trace_.name(given.dtype));
    const std::int64_t elements = call.kind == CallKind::receive && given.elements_out > 0
                                      ? given.elements_out
                                      : given.elements_in;
    if (elements >= 0 && size > 0) call.bytes = std::min(elements, most_bytes / 8) * size;
    if (call.kind == CallKind::send && given.destination >= 0) call.peer = given.destination;
    if (call.kind == CallKind::receive && given.source >= 0) call.peer = given.source;
  }

  /// Describes a call whose arguments name no group. If the process has only one group, it is that.
  void describe_by_process(Call& call) const {
    if (trace_.groups.size() != 1) {
      if (trace_.groups.empty() && call.group_size < 0) call.members = unknown_group;
      return;
    }
    const ProcessGroup& only = trace_.groups.front();
    call.members = only.name;
    if (call.group.empty()) call.group = only.description.empty() ? only.name : only.description;
    if (call.group_size < 0) call.group_size = only.size;
  }

  /// An operator c10d::* of a collective.
  struct Issued {
    std::size_t event = 0;
    CallKind kind = CallKind::other;
    bool has_span = false;  ///< whether its span of gloo was found
  };

  const Trace& trace_;
  const std::unordered_map<std::int64_t, TrackTime> launches_;  ///< by correlation
  RankCalls found_;
  Enclosing<PipelineLabel> labels_;
  Enclosing<std::int32_t> parameters_;  ///< of record_param_comms: index of the communication
  Enclosing<std::size_t> c10d_;         ///< index of the event
  std::vector<Issued> issued_;          ///< in order
  std::size_t first_issued_ = 0;        ///< the first that has no span
};

}  // namespace

int RankCalls::step_at(Picoseconds time) const {
  const auto after =
      std::ranges::upper_bound(steps, time, {}, [](const Step& step) { return step.time.start; });
  if (after == steps.begin()) return -1;
  const Step& step = *std::prev(after);
  return time < step.time.end ? step.step : -1;
}

RankCalls find_calls(const Trace& trace) {
  return Finder{trace}.find();
}

}  // namespace lockstep::kineto
