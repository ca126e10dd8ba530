#include "core/replay/critical_path.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "core/replay/replay_state.h"

namespace lockstep {

using Kind = RecordedOperation::Kind;

/// Walks backwards through a replay.
class PathFinder {
 public:
  PathFinder(const Replay& replay, int step) : replay_(replay), step_(step) {}
  std::vector<PathPart> find();

 private:
  using RankState = Replay::RankState;
  /// A place in a rank's lists: before the operation at `position`.
  struct Place {
    int rank = 0;
    std::size_t section = 0;
    std::size_t position = 0;
  };

  const RankState& state(int rank) const { return replay_.ranks_[static_cast<std::size_t>(rank)]; }
  const std::vector<RunOperations::Section>& sections(int rank) const {
    return replay_.run_.ranks[static_cast<std::size_t>(rank)].sections;
  }
  std::uint32_t list_of(const Place& at) const { return sections(at.rank)[at.section].list; }
  Place last_end() const;
  /// The place at which a rank issued an operation.
  Place issue_of(int rank, std::int64_t number) const;
  const RecordedOperation& operation_at(const Place& at) const {
    return replay_.run_.operations[replay_.run_.lists[list_of(at)][at.position]];
  }
  void add(PathPart::Kind kind, int rank, int to, const RecordedOperation& operation,
           Picoseconds start) {
    const char* axis = kind == PathPart::Kind::compute      ? ""
                       : operation.kind == Kind::collective ? group_
                                                            : operation.axis;
    if (start < time_) path_.push_back({kind, rank, to, &operation, axis, start, time_});
    time_ = start;
  }
  /// Adds a message that arrives at time_ without having waited for the receiver's lane. Sets time_
  /// to its departure.
  void travel(int from, int to, const RecordedOperation& operation, Picoseconds departure,
              Picoseconds held) {
    add(PathPart::Kind::latency, from, to, operation, departure + held);
    add(PathPart::Kind::transfer, from, to, operation, departure);
  }

  // Each of these functions goes back from the end of an operation, at time_, to the place that
  // determined its start.
  Place back_from(int rank, std::int64_t number);
  Place back_from_receive(int rank, std::int64_t number);
  Place back_from_start_of_send(int rank, std::int64_t number);
  Place back_from_collective(int rank, std::int64_t number);
  Place back_from_together(const Place& at);

  const Replay& replay_;
  const int step_;
  Picoseconds time_ = 0;
  const char* group_ = "";      ///< the name of the group whose collective is followed
  std::vector<PathPart> path_;  ///< backwards
};

PathFinder::Place PathFinder::last_end() const {
  Place last;
  Picoseconds end = -1;
  for (int rank = 0; rank < static_cast<int>(replay_.ranks_.size()); ++rank)
    for (std::size_t i = 0; i < sections(rank).size(); ++i)
      if (sections(rank)[i].step == step_ && state(rank).sections[i].end > end) {
        end = state(rank).sections[i].end;
        last = {rank, i, 0};
        last.position = replay_.run_.lists[list_of(last)].size();
      }
  return last;
}

PathFinder::Place PathFinder::issue_of(int rank, std::int64_t number) const {
  const auto& all = state(rank).sections;
  const auto after = std::ranges::upper_bound(all, static_cast<std::size_t>(number), {},
                                              &RankState::Section::issued);
  Place at{rank, static_cast<std::size_t>(after - all.begin()) - 1, 0};
  at.position =
      replay_.marks_[list_of(at)].issued[static_cast<std::size_t>(number) - all[at.section].issued];
  return at;
}

std::vector<PathPart> PathFinder::find() {
  Place at = last_end();
  time_ = state(at.rank).sections[at.section].end;
  while (sections(at.rank)[at.section].step == step_ && at.position > 0) {
    --at.position;
    const RecordedOperation& operation = operation_at(at);
    if (operation.kind == Kind::wait || operation.kind == Kind::together) {
      if (replay_.time_before(at.rank, at.section, at.position) == time_) continue;
      if (operation.kind == Kind::together) {
        at = back_from_together(at);
        continue;
      }
      // The number of operations that the rank had issued when it waited.
      const auto& issued = replay_.marks_[list_of(at)].issued;
      const auto before = std::ranges::lower_bound(issued, at.position) - issued.begin();
      at =
          back_from(at.rank, static_cast<std::int64_t>(state(at.rank).sections[at.section].issued) +
                                 before - operation.back);
    } else {
      add(PathPart::Kind::compute, at.rank, -1, operation,
          time_ - replay_.duration(at.rank, at.section, at.position));
    }
  }
  std::ranges::reverse(path_);
  return std::move(path_);
}

PathFinder::Place PathFinder::back_from(int rank, std::int64_t number) {
  const Place issue = issue_of(rank, number);
  const RecordedOperation& operation = operation_at(issue);
  if (operation.kind == Kind::receive) return back_from_receive(rank, number);
  if (operation.kind == Kind::collective) return back_from_collective(rank, number);
  const Picoseconds start = state(rank).issued[static_cast<std::size_t>(number)].start;
  add(PathPart::Kind::transfer, rank, rank + operation.peer, operation, start);
  return back_from_start_of_send(rank, number);
}

PathFinder::Place PathFinder::back_from_receive(int rank, std::int64_t number) {
  while (true) {
    const RecordedOperation& operation = operation_at(issue_of(rank, number));
    const RankState::Issued& mine = state(rank).issued[static_cast<std::size_t>(number)];
    const int from = rank + operation.peer;
    const RankState::Issued& theirs = state(from).issued[static_cast<std::size_t>(mine.sent)];
    const Cluster& cluster = replay_.scenario_.links(operation.axis);
    if (theirs.end + cluster.latency(from, rank, operation.bytes) == mine.end) {
      travel(from, rank, operation, theirs.start, theirs.end - theirs.start);
      return back_from_start_of_send(from, mine.sent);
    }
    // The receiver's lane was still receiving the previous message.
    add(PathPart::Kind::transfer, from, rank, operation, mine.start);
    number = mine.before;
  }
}

PathFinder::Place PathFinder::back_from_start_of_send(int rank, std::int64_t number) {
  while (true) {
    const Place issue = issue_of(rank, number);
    if (replay_.time_before(rank, issue.section, issue.position) == time_) return issue;
    // The sender's lane was still sending the previous message.
    number = state(rank).issued[static_cast<std::size_t>(number)].before;
    const RecordedOperation& before = operation_at(issue_of(rank, number));
    add(PathPart::Kind::transfer, rank, rank + before.peer, before,
        state(rank).issued[static_cast<std::size_t>(number)].start);
  }
}

PathFinder::Place PathFinder::back_from_together(const Place& at) {
  const auto& mine = replay_.marks_[list_of(at)].togethers;
  const auto which =
      state(at.rank).sections[at.section].togethers +
      static_cast<std::size_t>(std::ranges::lower_bound(mine, at.position) - mine.begin());
  const int rank = replay_.last_to_start_[which];
  const auto& all = state(rank).sections;
  const auto after = std::ranges::upper_bound(all, which, {}, &RankState::Section::togethers);
  Place there{rank, static_cast<std::size_t>(after - all.begin()) - 1, 0};
  there.position = replay_.marks_[list_of(there)].togethers[which - all[there.section].togethers];
  return there;
}

// Within a collective, a step of a member begins when its last receive has ended. The path
// therefore goes from message to message, until it reaches a member that has just called the
// collective, or one that was still busy with the group's previous collective: on a lane or, if
// links are shared, with any part of it.
PathFinder::Place PathFinder::back_from_collective(int rank, std::int64_t number) {
  const bool shared = replay_.scenario_.modelled().cluster.shared.has_value();
  std::optional<Direction> lane;  // on which the path came from a later collective
  while (true) {
    const std::vector<Replay::Exchange> all = replay_.expand(rank, number);
    const RecordedOperation& operation = operation_at(issue_of(rank, number));
    // Ranks number their groups in their own order.
    const std::string& group = replay_.run_
                                   .groups[replay_.run_.ranks[static_cast<std::size_t>(rank)]
                                               .groups[static_cast<std::size_t>(operation.group)]]
                                   .name;
    group_ = group.c_str();
    const Cluster& cluster = replay_.scenario_.links(group);
    std::size_t member = 0;
    while (all[member].rank != rank) ++member;

    if (shared && all[member].steps.empty()) {  // its messages were not kept
      add(PathPart::Kind::transfer, rank, rank, operation, all[member].ready);
      return issue_of(rank, number);
    }
    if (all[member].in_switch) {
      // Up when the last member and its lanes are ready, and down α later.
      const Passage up = all[member].passages[0];
      if (lane != Direction::send) add(PathPart::Kind::latency, rank, rank, operation, up.end);
      add(PathPart::Kind::transfer, rank, rank, operation, up.start);
      const auto bound = std::ranges::find_if(all, [&](const Replay::Exchange& each) {
        return std::max({each.ready, each.send_free, each.receive_free}) == time_;
      });
      rank = bound->rank;
      if (bound->ready == time_) return issue_of(rank, bound->issued);
      if (!shared) lane = bound->send_free == time_ ? Direction::send : Direction::receive;
      number = bound->before;
      continue;
    }

    /// The last step before `limit` in a direction (or any) that ends at time_.
    const auto ending = [&](std::size_t of, std::size_t limit,
                            std::optional<Direction> direction) -> std::optional<std::size_t> {
      while (limit-- > 0)
        if (all[of].passages[limit].end == time_ &&
            (!direction || all[of].steps[limit].direction == *direction))
          return limit;
      return {};
    };
    std::optional<std::size_t> step = ending(member, all[member].steps.size(), lane);
    bool at_start = false;                               // whether time_ is the start of a send
    bool earlier = !step && all[member].ready != time_;  // the path continues in the previous
                                                         // collective
    lane.reset();
    while (step) {
      const Replay::Exchange& mine = all[member];
      const auto& [direction, peer, bytes] = mine.steps[*step];
      const Passage& passage = mine.passages[*step];
      const Replay::Exchange& theirs = all[static_cast<std::size_t>(peer)];
      if (direction == Direction::receive) {
        // The sender's matching step: the same number of messages to this member come before it.
        const auto same = [&](const MetaStep& each, Direction way, std::size_t other) {
          return each.direction == way && each.peer == static_cast<int>(other);
        };
        const auto count = std::count_if(
            mine.steps.begin(), mine.steps.begin() + static_cast<std::ptrdiff_t>(*step),
            [&](const MetaStep& each) {
              return same(each, Direction::receive, static_cast<std::size_t>(peer));
            });
        std::size_t sent = 0;
        for (auto left = count; left >= 0; ++sent)
          if (same(theirs.steps[sent], Direction::send, member)) --left;
        --sent;
        const auto& [departure, gone] = theirs.passages[sent];
        if (gone + cluster.latency(theirs.rank, mine.rank, bytes) == passage.end) {
          travel(theirs.rank, mine.rank, operation, departure, gone - departure);
          member = static_cast<std::size_t>(peer);
          step = sent;
          at_start = true;
        } else {
          add(PathPart::Kind::transfer, theirs.rank, mine.rank, operation, passage.start);
          if (const auto before = ending(member, *step, Direction::receive)) {
            step = before;
            continue;
          }
          lane = Direction::receive;
          earlier = true;
          break;
        }
      } else if (!at_start) {
        add(PathPart::Kind::transfer, mine.rank, theirs.rank, operation, passage.start);
        at_start = true;
      }
      if (!at_start) continue;
      // A send starts at time_: its data came with a receive or the call, or its lane was busy.
      at_start = false;
      if (const auto before = ending(member, *step, Direction::receive)) {
        step = before;
      } else if (all[member].ready == time_) {
        step.reset();
      } else if (const auto busy = ending(member, *step, Direction::send)) {
        step = busy;
      } else {
        if (!shared) lane = Direction::send;
        earlier = true;
        break;
      }
    }
    rank = all[member].rank;
    if (!earlier) return issue_of(rank, all[member].issued);
    number = all[member].before;
  }
}

std::vector<PathPart> critical_path(const Replay& replay, int step) {
  return PathFinder{replay, step}.find();
}

std::vector<PathShare> shares(const std::vector<PathPart>& path) {
  std::map<std::string, Picoseconds> times;
  for (const PathPart& part : path) {
    const RecordedOperation& operation = *part.operation;
    std::string what;
    if (part.kind == PathPart::Kind::compute) {
      what = operation.category == Category::kernel ? "other kernels" : name_of(operation.category);
    } else {
      what = part.axis;
      what += part.kind == PathPart::Kind::transfer ? " transfer" : " latency";
    }
    times[what] += part.end - part.start;
  }
  std::vector<PathShare> all;
  for (const auto& [what, time] : times) all.push_back({what, time});
  std::ranges::stable_sort(all, std::greater{}, &PathShare::time);
  return all;
}

}  // namespace lockstep
