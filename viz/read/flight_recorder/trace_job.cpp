#include "viz/read/flight_recorder/trace_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "viz/read/flight_recorder/rank_list.h"

namespace lockstep::flight {
namespace {

constexpr int most_members = 8192;  // of a group whose members are derived from the mesh

/// Whether a span is an operation with other ranks.
bool is_communication(const TimelineSpan& span) {
  return span.category == Category::communication || span.category == Category::wait;
}
bool is_message(const Timeline& timeline, const TimelineSpan& span) {
  const std::string& name = timeline.name(span.name);
  return span.peer >= 0 && (name == "send" || name == "recv");
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

/// Sets of ranks that exchange messages, by the label of their group (union-find).
class Partners {
 public:
  void join(const std::string& group, int a, int b) {
    auto& parents = parents_[group];
    parents.try_emplace(a, a);
    parents.try_emplace(b, b);
    parents[root(parents, a)] = root(parents, b);
  }
  std::vector<int> members(const std::string& group, int rank) {
    auto& parents = parents_[group];
    parents.try_emplace(rank, rank);
    std::vector<int> members;
    const int own = root(parents, rank);
    for (const auto& [each, parent] : parents)
      if (root(parents, each) == own) members.push_back(each);
    return members;
  }

 private:
  static int root(std::map<int, int>& parents, int rank) {
    while (parents.at(rank) != rank) {
      parents[rank] = parents.at(parents.at(rank));
      rank = parents.at(rank);
    }
    return rank;
  }
  std::map<std::string, std::map<int, int>> parents_;
};

/// Returns the members of a rank's group, whose name lists the axes on which they differ: "dp_cp".
/// The mesh lists its axes from the outermost to the innermost. Returns nothing if the name
/// contains anything other than axes.
std::vector<int> members_on_mesh(const RunInfo& run, const std::string& group, int rank) {
  std::vector<int> members{rank};
  if (group == "world") {
    members.resize(static_cast<std::size_t>(std::clamp(run.ranks, 0, most_members)));
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
  std::set<std::string> axes;
  for (std::size_t begin = 0; begin <= group.size();) {
    const std::size_t end = std::min(group.find('_', begin), group.size());
    axes.insert(group.substr(begin, end - begin));
    begin = end + 1;
  }
  std::int64_t stride = 1;
  std::size_t found = 0;
  for (auto axis = run.mesh.rbegin(); axis != run.mesh.rend(); ++axis) {
    const int size = std::max(axis->second, 1);
    if (axes.contains(axis->first) &&
        members.size() * static_cast<std::size_t>(size) <= most_members) {
      ++found;
      std::vector<int> more;
      for (const int member : members) {
        const std::int64_t index = member / stride % size;
        for (int i = 0; i < size; ++i)
          more.push_back(static_cast<int>(member + (i - index) * stride));
      }
      members = std::move(more);
    }
    stride = std::min<std::int64_t>(stride * size, 1 << 30);
  }
  std::ranges::sort(members);
  return found == axes.size() ? members : std::vector<int>{};
}

/// Describes the end of a run's trace as its ranks' flight recorders would: the last collective of
/// each rank in each group, and its open operations. A group's members are the ranks that exchanged
/// messages in it or, if these are fewer than its size, the ranks that the mesh gives it.
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
    return given.empty() && is_message(timeline_, span) ? messages_ : given;
  }

  /// Records the ranks that exchange messages, the sizes of groups and the messages in flight.
  void record(int rank, const TimelineSpan& span) {
    const std::string group = group_of(span);
    if (group.empty()) return;
    if (span.peer >= 0 && span.peer < most_ranks) partners_.join(group, rank, span.peer);
    int& size = sizes_[group];
    size = std::max(size, span.group_size);
    if (is_message(timeline_, span) && span.category == Category::communication) {
      const bool sends = timeline_.name(span.name) == "send";
      auto& sent = in_flight_[{sends ? rank : span.peer, sends ? span.peer : rank, group, span.step,
                               span.microbatch}];
      sent += sends ? 1 : -1;
    }
  }

  const std::vector<int>& members_of(const std::string& group, int rank) {
    auto& known = members_[{group, rank}];
    if (!known.empty()) return known;
    known = partners_.members(group, rank);
    if (static_cast<int>(known.size()) < sizes_[group])
      if (auto all = members_on_mesh(timeline_.run(), group, rank);
          static_cast<int>(all.size()) == sizes_[group])
        known = std::move(all);
    return known;
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
      const bool later = is_message(timeline_, span) || newest.at == 0
                             ? span.end >= newest.at
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
    if (is_message(timeline_, span)) {
      const bool sends = called == "send";
      const auto index = [&](int rank) {
        return std::ranges::find(members, rank) - members.begin();
      };
      called = sends ? fmt::format("send {}->{}", index(read.rank), index(span.peer))
                     : fmt::format("recv {}<-{}", index(read.rank), index(span.peer));
      entry.is_p2p = true;
    }
    entry.name = keep(std::move(called));
    entry.state = event.open && !has_arrived(read.rank, label, span) ? CollectiveState::scheduled
                                                                     : CollectiveState::completed;
    read.dump.entries.push_back(entry);
  }

  /// Whether an open operation is a receive whose message has been sent. It is not pending: its
  /// rank only has to take the message.
  bool has_arrived(int rank, const std::string& group, const TimelineSpan& span) const {
    if (!is_message(timeline_, span) || timeline_.name(span.name) != "recv") return false;
    const auto found = in_flight_.find({span.peer, rank, group, span.step, span.microbatch});
    return found != in_flight_.end() && found->second > 0;
  }

  const Timeline& timeline_;
  std::string messages_ = "world";  ///< the label of messages without a group
  Partners partners_;
  std::map<std::string, int> sizes_;                                 ///< of groups, by label
  std::map<std::pair<std::string, int>, std::vector<int>> members_;  ///< by label and rank
  /// The number of messages sent but not received, by sender, receiver, group, step and microbatch.
  std::map<std::tuple<int, int, std::string, int, int>, std::int64_t> in_flight_;
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
