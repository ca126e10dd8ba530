#include "viz/read/flight_recorder/trace_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

/// Whether a span is an operation with other ranks.
bool is_communication(const TimelineSpan& span) {
  return span.category == Category::communication || span.category == Category::wait;
}
/// Whether a span sends or receives a message that is not part of a collective.
bool is_message(const TimelineSpan& span) {
  return span.role != MessageRole::none && span.sequence < 0 && span.peer >= 0;
}

template <class Visit>
void visit_communication(const RankTimeline& rank, Visit visit) {
  for (const auto& lane : rank.lanes)
    for (const SpanRow& row : lane->rows(Band::action))
      for (const TimelineSpan& span : row)
        if (is_communication(span)) visit(span);
}
template <class Visit>
void visit_open(const RankTimeline& rank, Visit visit) {
  for (const auto& lane : rank.lanes)
    for (const AnnouncedSpan& open : lane->open())
      if (is_communication(open.span)) visit(open.span);
}

/// Describes the end of a run's trace as its ranks' flight recorders would: the last collective of
/// each rank in each group, and its open operations.
class TraceJob {
 public:
  explicit TraceJob(const Timeline& timeline) : timeline_(timeline) {
    for (const auto& [axis, size] : timeline.run().mesh)
      if (axis == "pp" && size > 1) messages_ = "pp";
  }

  Job read() {
    for (const auto& rank : timeline_.ranks()) {
      const auto visit = [&](const TimelineSpan& span) { record(rank->rank, span); };
      visit_communication(*rank, visit);
      visit_open(*rank, visit);
    }
    Job job;
    job.evidence = Job::Evidence::trace;
    std::vector<int> cut_off;
    for (const auto& rank : timeline_.ranks()) {
      job.dumps.push_back(dump_of(*rank));
      if (!rank->ended) cut_off.push_back(rank->rank);
    }
    if (!cut_off.empty())
      job.notes.push_back(fmt::format("The trace of {} has no end: killed, or still running.",
                                      rank_words(cut_off)));
    return job;
  }

 private:
  /// Returns the label of the span's group; "" if it belongs to none.
  std::string group_of(const TimelineSpan& span) const {
    const std::string& given = timeline_.name(span.group);
    return given.empty() && is_message(span) ? messages_ : given;
  }

  /// Counts the messages in flight.
  void record(int rank, const TimelineSpan& span) {
    if (!is_message(span) || span.category != Category::communication) return;
    in_flight_[key_of(rank, span)] += span.sends() ? 1 : -1;
  }

  /// Returns the members of a rank's group: those that the trace lists or, in traces before format
  /// 2, the ranks that exchanged messages in it. A message without a group may be from any rank.
  const std::vector<int>& members_of(const std::string& group, int rank) {
    auto& members = members_[{group, rank}];
    if (!members.empty()) return members;
    const NameId name = timeline_.find_name(group).value_or(0);
    std::set<int> all{rank};
    for (std::vector<int> open{rank}; !open.empty();) {
      const RankTimeline* member = timeline_.find_rank(open.back());
      open.pop_back();
      if (!member) continue;
      const auto listed = member->groups.find(name);
      if (listed == member->groups.end()) continue;
      for (const int other : listed->second)
        if (other < most_ranks && all.insert(other).second) open.push_back(other);
    }
    if (all.size() == 1)
      for (const auto& other : timeline_.ranks()) all.insert(other->rank);
    return members = {all.begin(), all.end()};
  }

  /// Sender, receiver, group, step and microbatch.
  using MessageKey = std::tuple<int, int, NameId, int, int>;
  static MessageKey key_of(int rank, const TimelineSpan& span) {
    return {span.sends() ? rank : span.peer, span.sends() ? span.peer : rank, span.group, span.step,
            span.microbatch};
  }

  struct Event {
    Picoseconds at = 0;
    bool open = false;
    TimelineSpan span;
  };

  RankDump dump_of(const RankTimeline& rank) {
    std::map<std::string, Event> last;  // by the group's label
    std::vector<Event> events;
    visit_communication(rank, [&](const TimelineSpan& span) {
      const std::string group = group_of(span);
      if (group.empty()) return;
      Event& newest = last[group];
      const bool later = is_message(span) || newest.at == 0 ? span.end >= newest.at
                                                            : span.sequence >= newest.span.sequence;
      if (later) newest = {span.end, false, span};
    });
    for (const auto& [group, event] : last) events.push_back(event);
    visit_open(rank, [&](const TimelineSpan& span) { events.push_back({span.end, true, span}); });
    std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
      return std::tuple{a.open, a.at} < std::tuple{b.open, b.at};
    });
    RankDump read{.rank = rank.rank, .dump = {.texts = std::make_shared<Texts>()}};
    std::set<std::string> listed;
    for (const Event& event : events) add(read, event, listed);
    return read;
  }

  void add(RankDump& read, const Event& event, std::set<std::string>& listed) {
    const TimelineSpan& span = event.span;
    const std::string label = group_of(span);
    if (label.empty()) return;
    const std::vector<int>& members = members_of(label, read.rank);
    const auto keep = [&](std::string text) -> std::string_view {
      return *read.dump.texts->insert(std::move(text)).first;
    };
    const std::string name = fmt::format("{} {}", label, members.front());
    if (listed.insert(label).second)
      read.dump.groups.push_back({.name = name, .description = label, .ranks = members});
    Entry entry{.record = static_cast<std::int64_t>(read.dump.entries.size()),
                .sequence = span.sequence,
                .group = keep(name),
                .description = keep(label),
                .name = {},
                .input = {},
                .output = {}};
    std::string called = timeline_.name(span.name);
    if (is_message(span)) {
      const bool sends = span.sends();
      const auto index = [&](int rank) {
        return std::ranges::find(members, rank) - members.begin();
      };
      called = sends ? fmt::format("send {}->{}", index(read.rank), index(span.peer))
                     : fmt::format("recv {}<-{}", index(read.rank), index(span.peer));
      entry.is_p2p = true;
    }
    entry.name = keep(std::move(called));
    entry.state = event.open && !has_arrived(read.rank, span) ? CollectiveState::scheduled
                                                              : CollectiveState::completed;
    read.dump.entries.push_back(entry);
  }

  /// Whether an open operation is a receive whose message has been sent. It is not pending: its
  /// rank only has to take the message.
  bool has_arrived(int rank, const TimelineSpan& span) const {
    if (!is_message(span) || !span.receives()) return false;
    const auto found = in_flight_.find(key_of(rank, span));
    return found != in_flight_.end() && found->second > 0;
  }

  const Timeline& timeline_;
  std::string messages_ = "world";  ///< the label of messages without a group
  std::map<std::pair<std::string, int>, std::vector<int>> members_;  ///< by label and rank
  /// The number of messages sent but not received.
  std::map<MessageKey, std::int64_t> in_flight_;
};

bool ends_in_waits(const Timeline& timeline) {
  return std::ranges::any_of(timeline.ranks(), [&](const auto& rank) {
    bool waits = false;
    visit_open(*rank, [&](const TimelineSpan& span) {
      waits = waits || span.peer >= 0 || !timeline.name(span.group).empty();
    });
    return waits;
  });
}

}  // namespace

std::optional<Stall> stall_of(const Timeline& timeline) {
  if (!ends_in_waits(timeline)) return std::nullopt;
  try {
    return stall_of(TraceJob{timeline}.read());
  } catch (const UsageError&) {  // the trace contradicts itself
    return std::nullopt;
  }
}

}  // namespace lockstep::flight
