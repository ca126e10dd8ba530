#include "core/replay/player.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/comm/choose_algorithm.h"
#include "core/comm/run_collective.h"

namespace lockstep {

using Kind = RecordedOperation::Kind;

std::vector<MetaStep> messages_of(const Collective& collective, int member, int size) {
  std::vector<MetaStep> steps;
  const auto view = [&](std::int64_t elements) {
    return View{nullptr, {elements}, collective.dtype};
  };
  StepRecorder recorder{member, size, steps};
  const auto middle =
      collective.counts.begin() + static_cast<std::ptrdiff_t>(collective.counts.size() / 2);
  if (collective.operation == Operation::all_to_all)
    run(collective, recorder,
        view(std::accumulate(collective.counts.begin(), middle, std::int64_t{0})),
        view(std::accumulate(middle, collective.counts.end(), std::int64_t{0})));
  else
    run(collective, recorder, view(collective.elements));
  return steps;
}

std::vector<std::vector<MetaStep>> messages_of(const std::vector<Collective>& of_member) {
  const int size = static_cast<int>(of_member.size());
  std::vector<std::vector<MetaStep>> steps;
  for (int member = 0; member < size; ++member)
    steps.push_back(messages_of(of_member[static_cast<std::size_t>(member)], member, size));
  return steps;
}

Collective Replay::GroupState::settled(const Collective& recorded) {
  if (recorded.choice == Collective::Choice::given) return recorded;
  const auto [found, is_new] =
      chosen.try_emplace({recorded.operation, recorded.elements, recorded.dtype, recorded.choice});
  if (is_new) found->second = with_default_algorithm(recorded, ranks, cluster);
  return found->second;
}

Replay::Player::Player(Replay& replay)
    : replay_(replay), run_(replay.run_), at_(run_.ranks.size()) {
  const int ranks = static_cast<int>(at_.size());
  played_ranks_ = at_.size() / static_cast<std::size_t>(run_.folding.times());
  const Cluster& cluster = replay.scenario_.modelled().cluster;
  if (!is_symmetric(run_.folding, cluster, ranks))
    refuse("folded ranks have different links or devices");
  if (run_.folding.folds() && !replay.scenario_.modelled().slow.empty())
    refuse("a slow rank is not equal to others, for which it would stand in a folded run");
  if (!cluster.shared) return;
  network_.emplace(cluster, run_.folding, ranks);
  beside_collectives_ = cluster.shared->kernels_beside_collectives;
  for (std::size_t rank = 0; rank < at_.size(); ++rank)
    listeners_.emplace_back(*this, static_cast<int>(rank));
}

void Replay::Player::refuse(const std::string& why) {
  throw UsageError("these operations can't be replayed: " + why);
}

void Replay::Player::play() {
  for (std::size_t rank = at_.size(); rank-- > 0;) open_.push_back(static_cast<int>(rank));
  while (true) {
    while (!open_.empty()) {
      const int rank = open_.back();
      open_.pop_back();
      advance(rank);
    }
    if (!network_ || !network_->next()) break;
    network_->advance();  // until a rank can continue
  }
  for (std::size_t rank = 0; rank < at_.size(); ++rank)
    if (at_[rank].section < run_.ranks[rank].sections.size())
      refuse(
          fmt::format("rank {} waits for a message, a collective or a common start in which "
                      "another rank does not take part",
                      rank));
}

void Replay::Player::begin_section(int rank) {
  const Cursor& at = cursor(rank);
  RankState& mine = state(rank);
  std::size_t togethers = 0;
  if (at.section > 0) {
    const auto& before = run_.ranks[static_cast<std::size_t>(rank)].sections[at.section - 1];
    togethers = mine.sections.back().togethers + replay_.marks_[before.list].togethers.size();
  }
  mine.sections.push_back({.begin = at.time,
                           .end = at.time,
                           .issued = mine.issued.size(),
                           .stops = mine.stops.size(),
                           .togethers = togethers});
}

void Replay::Player::advance(int rank) {
  Cursor& at = cursor(rank);
  RankState& mine = state(rank);
  const std::vector<Picoseconds>& durations = *mine.durations;
  const Cluster& cluster = replay_.scenario_.modelled().cluster;
  const auto& sections = run_.ranks[static_cast<std::size_t>(rank)].sections;
  for (; at.section < sections.size(); ++at.section, at.position = 0) {
    const auto& list = run_.lists[sections[at.section].list];
    if (at.section == mine.sections.size()) begin_section(rank);
    for (; at.position < list.size(); ++at.position) {
      const std::uint32_t index = list[at.position];
      const RecordedOperation& operation = run_.operations[index];
      switch (operation.kind) {
        case Kind::kernel:
          if (beside_collectives_ != 1 && durations[index] > 0) {
            const auto slow = is_beside_collective(rank);
            if (!slow) return;
            if (*slow) {
              mine.sections.back().slowed.push_back(static_cast<std::uint32_t>(at.position));
              at.time = cluster.after(
                  at.time, stretched(durations[index], beside_collectives_) - durations[index]);
            }
          }
          [[fallthrough]];
        case Kind::begin:
        case Kind::end:
          at.time = cluster.after(at.time, durations[index]);
          break;
        case Kind::send:
          send(rank, operation);
          break;
        case Kind::receive:
          receive(rank, operation);
          break;
        case Kind::collective:
          call(rank, index);
          break;
        case Kind::wait:
          if (!wait(rank, operation.back)) return;
          break;
        case Kind::together:
          if (!start_together(rank)) return;
          break;
      }
    }
    mine.sections.back().end = at.time;
  }
}

bool Replay::Player::wait(int rank, std::int64_t back) {
  Cursor& at = cursor(rank);
  RankState& mine = state(rank);
  const std::int64_t number = static_cast<std::int64_t>(mine.issued.size()) - back;
  const Picoseconds end = mine.issued[static_cast<std::size_t>(number)].end;
  if (end < 0) {
    at.waits_for = number;
    return false;
  }
  at.time = std::max(at.time, end);
  mine.stops.push_back(at.time);
  return true;
}

bool Replay::Player::start_together(int rank) {
  Cursor& at = cursor(rank);
  if (at.waits_for == started) {  // the others have arrived, and have set the time
    at.waits_for = nothing;
    state(rank).stops.push_back(at.time);
    return true;
  }
  starting_.push_back(rank);
  if (starting_.size() < played_ranks_) return false;
  const int last = *std::ranges::max_element(starting_, {}, [&](int each) {
    return std::pair{cursor(each).time, -each};
  });
  replay_.last_to_start_.push_back(last);
  for (const int each : starting_) {
    cursor(each).time = cursor(last).time;
    cursor(each).waits_for = started;
    if (each != rank) open_.push_back(each);
  }
  starting_.clear();
  return start_together(rank);
}

void Replay::Player::send(int rank, const RecordedOperation& operation) {
  const int to = rank + operation.peer;
  Cursor& at = cursor(rank);
  Lane& lane = at.send[operation.stream];
  if (network_) return send_on_shared(rank, operation);
  const Passage passage = depart(replay_.scenario_.links(operation.axis), rank, to, operation.bytes,
                                 at.time, lane.free);
  auto& issued = state(rank).issued;
  const auto number = static_cast<std::int32_t>(issued.size());
  issued.push_back({passage.start, passage.end, std::exchange(lane.last, number)});
  InFlight& messages = in_flight(rank, to, operation.channel);
  messages.sent.push_back({number, operation.bytes});
  if (messages.waiting >= 0)
    settle(run_.folding.representative(to), std::exchange(messages.waiting, -1));
}

void Replay::Player::receive(int rank, const RecordedOperation& operation) {
  Lane& lane = cursor(rank).receive[operation.stream];
  auto& issued = state(rank).issued;
  const auto number = static_cast<std::int32_t>(issued.size());
  issued.push_back({-1, -1, std::exchange(lane.last, number)});
  lane.unmatched.push_back({number, &operation});
  if (network_)
    return network_->receive(in_network(lane, rank, operation.channel), rank + operation.peer,
                             listeners_[static_cast<std::size_t>(rank)], number);
  if (lane.unmatched.size() == 1) settle(rank, operation.stream);
}

void Replay::Player::check_fit(int from, int to, std::int64_t sent, std::int64_t expected) {
  if (sent != expected)
    refuse(fmt::format("rank {} sends {} bytes to rank {}, which expects {}", from, sent, to,
                       expected));
}

// The messages of a lane are received in the order in which the rank asked for them.
void Replay::Player::settle(int rank, int stream) {
  Lane& lane = cursor(rank).receive[stream];
  while (!lane.unmatched.empty()) {
    const auto [number, operation] = lane.unmatched.front();
    const int from = rank + operation->peer;
    InFlight& messages = in_flight(from, rank, operation->channel);
    if (messages.sent.empty()) {
      messages.waiting = stream;
      return;
    }
    const auto [sent, bytes] = messages.sent.front();
    messages.sent.pop_front();
    lane.unmatched.pop_front();
    check_fit(from, rank, bytes, operation->bytes);
    const Picoseconds departure =
        state(run_.folding.representative(from)).issued[static_cast<std::size_t>(sent)].start;
    state(rank).issued[static_cast<std::size_t>(number)].sent = sent;
    ends(rank, number,
         arrive(replay_.scenario_.links(operation->axis), from, rank, bytes, departure, lane.free));
  }
}

void Replay::Player::ends(int rank, std::int32_t number, Passage passage) {
  RankState::Issued& issued = state(rank).issued[static_cast<std::size_t>(number)];
  issued.start = passage.start;
  issued.end = passage.end;
  Cursor& at = cursor(rank);
  if (at.waits_for != number) return;
  at.waits_for = nothing;
  open_.push_back(rank);
}

void Replay::Player::call(int rank, std::uint32_t index) {
  RankState& mine = state(rank);
  const auto number = static_cast<std::int32_t>(mine.issued.size());
  const Picoseconds ready = cursor(rank).time;
  mine.issued.push_back({ready, -1});
  const auto group_index = static_cast<std::size_t>(run_.operations[index].group);
  GroupState& group = *replay_.groups_[mine.groups[group_index]];
  if (group.kept == 0)
    refuse(fmt::format("folded ranks have different places in their group '{}'", group.name));
  const std::size_t member = group.member(rank);
  auto& calls = group.calls[member];
  const std::size_t round = calls.size() - group.played;
  calls.push_back(number);
  if (round == group.rounds.size())
    group.rounds.push_back(
        {std::vector<std::uint32_t>(group.kept), std::vector<Picoseconds>(group.kept)});
  GroupState::Round& calling = group.rounds[round];
  calling.operations[member] = index;
  calling.ready[member] = ready;
  const bool all_called = ++calling.arrived == group.kept;
  if (!network_) {
    if (all_called) play_round(group);
    return;
  }
  if (all_called) {
    messages(group, calling.operations);  // checks them
    group.rounds.pop_front();
    ++group.played;
  }
  if (beside_collectives_ != 1) cursor(rank).collectives.push_back(number);
  begin_call(group, member, calls.size() - 1, index);
}

const std::vector<std::vector<MetaStep>>& Replay::Player::messages(
    GroupState& group, const std::vector<std::uint32_t>& operations) {
  std::vector<Collective> collectives;
  for (const std::uint32_t index : operations)
    collectives.push_back(group.settled(run_.operations[index].collective));
  // Groups that call the same operations may be on different nodes, and choose different
  // algorithms.
  std::vector<std::uint32_t> key = operations;
  key.push_back(static_cast<std::uint32_t>(collectives[0].algorithm));
  key.push_back(static_cast<std::uint32_t>(collectives[0].per_node));
  const auto found = messages_.find(key);
  if (found != messages_.end()) return found->second;
  for (std::size_t member = 1; member < collectives.size(); ++member) {
    const Collective &one = collectives[0], &other = collectives[member];
    if (one.operation != other.operation || one.algorithm != other.algorithm ||
        one.elements != other.elements || one.dtype != other.dtype || one.root != other.root ||
        one.per_node != other.per_node)
      refuse(fmt::format("ranks {} and {} call different collectives of their group",
                         group.ranks[0], group.ranks[member]));
  }
  if (group.kept < group.ranks.size()) check_folds(group, collectives[0]);
  // A folded run has many members, and its operations have just been recorded, so the check is
  // skipped.
  if (network_ && group.kept < group.ranks.size())
    return messages_.emplace(std::move(key), std::vector<std::vector<MetaStep>>{}).first->second;
  for (std::size_t member = group.kept; member < group.ranks.size(); ++member)
    collectives.push_back(collectives[member % group.kept]);
  auto all = messages_of(collectives);
  if (const auto misfit = misfit_of({all.begin(), all.end()}))
    refuse(fmt::format("in a collective, rank {} sends {} bytes to rank {}, which expects {}",
                       group.ranks[static_cast<std::size_t>(misfit->sender)], misfit->sent,
                       group.ranks[static_cast<std::size_t>(misfit->receiver)], misfit->expected));
  if (network_) all.clear();  // checked; the members have their own lists (steps_)
  return messages_.emplace(std::move(key), std::move(all)).first->second;
}

void Replay::Player::play_round(GroupState& group) {
  const GroupState::Round round = std::move(group.rounds.front());
  group.rounds.pop_front();
  const auto& steps = messages(group, round.operations);
  for (std::size_t member = 0; member < group.members.size(); ++member) {
    MetaMember& each = group.members[member];
    group.lanes.push_back({each.send_free, each.receive_free});
    each.begin(steps[member], round.ready[member % group.kept], /*traced_=*/false);
  }
  group.player.play(group.members);
  const std::size_t played = group.played++;
  for (std::size_t member = 0; member < group.kept; ++member)
    ends(group.ranks[member], group.calls[member][played],
         {round.ready[member], group.members[member].end});
}

}  // namespace lockstep
