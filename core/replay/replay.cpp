#include "core/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "core/replay/player.h"

namespace lockstep {

using Kind = RecordedOperation::Kind;

Replay::Replay(const RunOperations& run, const Scenario& scenario)
    : run_(run), scenario_(scenario), ranks_(run.ranks.size()) {
  for (const auto& list : run.lists) {
    Marks& marks = marks_.emplace_back();
    for (std::uint32_t position = 0; position < list.size(); ++position) {
      const RecordedOperation& each = run.operations[list[position]];
      if (each.is_issued()) marks.issued.push_back(position);
      if (each.kind == Kind::wait || each.kind == Kind::together) marks.stops.push_back(position);
      if (each.kind == Kind::together) marks.togethers.push_back(position);
    }
  }
  std::size_t needed = 0;
  // A group that is created again with the same ranks and channel is another group.
  std::map<std::pair<std::uint32_t, std::size_t>, std::size_t> groups;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankState& mine = ranks_[rank];
    std::map<std::uint32_t, std::size_t> times;
    for (const std::uint32_t index : run.ranks[rank].groups) {
      const auto [found, is_new] = groups.try_emplace({index, times[index]++}, groups_.size());
      const auto& [name, channel, members] = run.groups[index];
      if (is_new)
        groups_.push_back(std::make_unique<GroupState>(name, channel, members, scenario.links(name),
                                                       run.folding));
      mine.groups.push_back(found->second);
    }
    const ModelledTime& modelled = scenario.modelled();
    auto& durations = durations_[{modelled.slowness(static_cast<int>(rank)),
                                  modelled.cluster.group_of(static_cast<int>(rank))}];
    mine.durations = &durations;
    if (durations.empty() && !run.operations.empty()) {
      const Clock clock = Clock::modelled(modelled, static_cast<int>(rank));
      for (const RecordedOperation& each : run.operations)
        durations.push_back(scenario.duration(each, clock));
    }
    std::size_t issued = 0, stops = 0;
    for (const auto& [step, list] : run.ranks[rank].sections) {
      issued += marks_[list].issued.size();
      stops += marks_[list].stops.size();
    }
    needed += issued * sizeof(RankState::Issued) + stops * sizeof(Picoseconds);
  }
  if (const auto available = static_cast<std::size_t>(available_memory()); needed > available)
    throw UsageError(fmt::format("these operations take {} to replay; {} are available",
                                 text_of_bytes(static_cast<double>(needed)),
                                 text_of_bytes(static_cast<double>(available))));
  Player{*this}.play();
}

Replay::~Replay() = default;

int Replay::last_step() const {
  int last = RunOperations::Section::no_step;
  for (const auto& rank : run_.ranks)
    for (const auto& [step, list] : rank.sections) last = std::max(last, step);
  return last;
}

Picoseconds Replay::step_time(int step) const {
  Picoseconds longest = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    for (std::size_t i = 0; i < ranks_[rank].sections.size(); ++i)
      if (run_.ranks[rank].sections[i].step == step)
        longest = std::max(longest, ranks_[rank].sections[i].end - ranks_[rank].sections[i].begin);
  return longest;
}

Passage Replay::section(int rank, std::size_t index) const {
  const RankState::Section& found = ranks_[static_cast<std::size_t>(rank)].sections[index];
  return {found.begin, found.end};
}

Picoseconds Replay::end() const {
  Picoseconds last = 0;
  for (const RankState& rank : ranks_)
    if (!rank.sections.empty()) last = std::max(last, rank.sections.back().end);
  return last;
}

Picoseconds Replay::duration(int rank, std::size_t section, std::size_t position) const {
  const RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  const std::uint32_t list = run_.ranks[static_cast<std::size_t>(rank)].sections[section].list;
  const Picoseconds alone = (*mine.durations)[run_.lists[list][position]];
  return std::ranges::binary_search(mine.sections[section].slowed, position)
             ? stretched(alone, scenario_.modelled().cluster.shared->kernels_beside_collectives)
             : alone;
}

void Replay::visit(int rank, std::size_t section,
                   const std::function<void(const Timed&)>& each) const {
  const RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  const RankState::Section& at = mine.sections[section];
  const auto& list = run_.lists[run_.ranks[static_cast<std::size_t>(rank)].sections[section].list];
  Picoseconds time = at.begin;
  std::size_t stops = at.stops, issued = at.issued;
  for (std::size_t position = 0; position < list.size(); ++position) {
    const RecordedOperation& operation = run_.operations[list[position]];
    switch (operation.kind) {
      case Kind::kernel:
      case Kind::begin:
      case Kind::end: {
        const Picoseconds start = std::exchange(time, time + duration(rank, section, position));
        each({operation, start, time});
        break;
      }
      case Kind::send:
      case Kind::receive:
      case Kind::collective: {
        const RankState::Issued& found = mine.issued[issued];
        each({operation, found.start, found.end, static_cast<std::int64_t>(issued++),
              found.sent == RankState::none
                  ? -1
                  : ranks_[static_cast<std::size_t>(
                               run_.folding.representative(rank + operation.peer))]
                        .issued[static_cast<std::size_t>(found.sent)]
                        .start});
        break;
      }
      case Kind::wait:
      case Kind::together: {
        const Picoseconds start = std::exchange(time, mine.stops[stops++]);
        each({operation, start, time,
              operation.kind == Kind::wait ? static_cast<std::int64_t>(issued) - operation.back
                                           : -1});
        break;
      }
    }
  }
}

Picoseconds Replay::time_before(int rank, std::size_t section, std::size_t position) const {
  const RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  const std::uint32_t index = run_.ranks[static_cast<std::size_t>(rank)].sections[section].list;
  const auto& stops = marks_[index].stops;
  const auto after = std::ranges::lower_bound(stops, position) - stops.begin();
  std::size_t from = 0;
  Picoseconds time = mine.sections[section].begin;
  if (after > 0) {
    from = stops[static_cast<std::size_t>(after) - 1] + 1;
    time = mine.stops[mine.sections[section].stops + static_cast<std::size_t>(after) - 1];
  }
  for (; from < position; ++from) time += duration(rank, section, from);
  return time;
}

std::vector<Replay::Exchange> Replay::expand(int rank, std::int64_t issued) const {
  const RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  const auto operation_of = [&](int of, std::int64_t number) -> std::uint32_t {
    const auto& sections = ranks_[static_cast<std::size_t>(of)].sections;
    const auto after = std::ranges::upper_bound(sections, static_cast<std::size_t>(number), {},
                                                &RankState::Section::issued);
    const auto section = static_cast<std::size_t>(after - sections.begin()) - 1;
    const std::uint32_t list = run_.ranks[static_cast<std::size_t>(of)].sections[section].list;
    return run_
        .lists[list]
              [marks_[list].issued[static_cast<std::size_t>(number) - sections[section].issued]];
  };
  const auto group_number =
      static_cast<std::size_t>(run_.operations[operation_of(rank, issued)].group);
  GroupState& group = *groups_[mine.groups[group_number]];
  const auto& calls = group.calls[group.member(rank)];
  const auto round = static_cast<std::size_t>(
      std::ranges::lower_bound(calls, static_cast<std::int32_t>(issued)) - calls.begin());

  std::vector<Exchange> exchanges;
  std::vector<Collective> collectives;
  for (std::size_t member = 0; member < group.ranks.size(); ++member) {
    const int its_rank = group.ranks[member];
    const std::int32_t number = group.calls[member][round];
    const RankState& its = ranks_[static_cast<std::size_t>(its_rank)];
    collectives.push_back(
        group.settled(run_.operations[operation_of(its_rank, number)].collective));
    exchanges.push_back({.rank = its_rank,
                         .ready = its.issued[static_cast<std::size_t>(number)].start,
                         .issued = number,
                         .before = round > 0 ? group.calls[member][round - 1] : RankState::none,
                         .in_switch = collectives.back().algorithm == Algorithm::in_switch});
  }
  auto steps = messages_of(collectives);
  if (scenario_.modelled().cluster.shared) {
    for (std::size_t member = 0; member < exchanges.size(); ++member) {
      const std::size_t place = round * group.ranks.size() + member;
      exchanges[member].end = ranks_[static_cast<std::size_t>(exchanges[member].rank)]
                                  .issued[static_cast<std::size_t>(exchanges[member].issued)]
                                  .end;
      if (const std::int64_t before = exchanges[member].before; before >= 0)
        exchanges[member].send_free = exchanges[member].receive_free =
            ranks_[static_cast<std::size_t>(exchanges[member].rank)]
                .issued[static_cast<std::size_t>(before)]
                .end;
      if (place >= group.passages.size() || group.passages[place].empty()) continue;
      exchanges[member].passages = group.passages[place];
      exchanges[member].steps = std::move(steps[member]);
    }
    return exchanges;
  }
  std::vector<MetaMember> members(exchanges.size());
  for (std::size_t member = 0; member < exchanges.size(); ++member) {
    const auto& [send_free, receive_free] = group.lanes[round * group.ranks.size() + member];
    members[member].send_free = send_free;
    members[member].receive_free = receive_free;
    exchanges[member].send_free = send_free;
    exchanges[member].receive_free = receive_free;
    members[member].begin(steps[member], exchanges[member].ready, /*traced_=*/true);
  }
  StepPlayer{group.ranks, group.cluster}.play(members);
  for (std::size_t member = 0; member < exchanges.size(); ++member) {
    exchanges[member].end = members[member].end;
    exchanges[member].passages = std::move(members[member].passages);
    exchanges[member].steps = std::move(steps[member]);
  }
  return exchanges;
}

}  // namespace lockstep
