#include "core/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "core/comm/algorithms.h"
#include "core/replay/replay_state.h"

namespace lockstep {

using Kind = RecordedOperation::Kind;

namespace {

/// Beyond this time, sums might overflow.
constexpr Picoseconds latest = 4'000'000'000'000'000'000;

/// Returns the time of a message over the slower link, in picoseconds.
double longest_passage(const Cluster& cluster, std::int64_t bytes) {
  double longest = 0;
  for (const Link* link : {&cluster.within, &cluster.between}) {
    const Link::Segment found = link->at(bytes);
    longest =
        std::max(longest, found.latency_seconds + static_cast<double>(bytes) / found.bandwidth);
  }
  return longest * 1e12;
}

}  // namespace

std::vector<std::vector<MetaStep>> messages_of(const std::vector<const Collective*>& of_member) {
  const int size = static_cast<int>(of_member.size());
  std::vector<std::vector<MetaStep>> steps(of_member.size());
  for (int member = 0; member < size; ++member) {
    const Collective& collective = *of_member[static_cast<std::size_t>(member)];
    const auto view = [&](std::int64_t elements) {
      return View{nullptr, {elements}, collective.dtype};
    };
    StepRecorder recorder{member, size, steps[static_cast<std::size_t>(member)]};
    const auto middle =
        collective.counts.begin() + static_cast<std::ptrdiff_t>(collective.counts.size() / 2);
    if (collective.operation == Operation::all_to_all)
      run(collective, recorder,
          view(std::accumulate(collective.counts.begin(), middle, std::int64_t{0})),
          view(std::accumulate(middle, collective.counts.end(), std::int64_t{0})));
    else
      run(collective, recorder, view(collective.elements));
  }
  return steps;
}

/// Plays the lists of all ranks: each rank goes on until it waits for something that is not known
/// yet.
class Replay::Player {
 public:
  explicit Player(Replay& replay) : replay_(replay), run_(replay.run_), at_(run_.ranks.size()) {}
  void play();

 private:
  /// One direction of a communication stream.
  struct Lane {
    Picoseconds free = 0;
    std::int32_t last = RankState::none;  ///< the number of its last message
    struct Receive {
      std::int32_t number;
      const RecordedOperation* operation;
    };
    std::deque<Receive> unmatched{};  ///< in order
  };
  /// Where a rank is in its lists.
  struct Cursor {
    std::size_t section = 0, position = 0;
    Picoseconds time = 0;
    std::int64_t waits_for = -1;                  ///< the number of a message or collective
    std::unordered_map<int, Lane> send, receive;  ///< by stream
  };
  /// The messages between two ranks on a channel that have been sent, but not received.
  struct InFlight {
    struct Sent {
      std::int32_t number;
      std::int64_t bytes;
    };
    std::deque<Sent> sent;
    int waiting = -1;  ///< the stream on which a receive waits for the next message
  };

  RankState& state(int rank) { return replay_.ranks_[static_cast<std::size_t>(rank)]; }
  Cursor& cursor(int rank) { return at_[static_cast<std::size_t>(rank)]; }
  InFlight& in_flight(int from, int to, int channel) {
    return in_flight_[static_cast<std::uint64_t>(from) << 42 |
                      static_cast<std::uint64_t>(to) << 21 | static_cast<std::uint64_t>(channel)];
  }
  [[noreturn]] static void refuse(const std::string& why) {
    throw UsageError("these operations can't be replayed: " + why);
  }
  static void check(Picoseconds time) {
    if (time > latest) refuse("they take more than 46 days");
  }

  void advance(int rank);
  void begin_section(int rank);
  bool wait(int rank, std::int64_t back);
  void send(int rank, const RecordedOperation& operation);
  void receive(int rank, const RecordedOperation& operation);
  void settle(int rank, int stream);
  void call(int rank, std::uint32_t index);
  void play_round(GroupState& group);
  bool start_together(int rank);
  /// Notes the interval of a message or collective, and lets the rank go on if it waits for that.
  void ends(int rank, std::int32_t number, Passage passage);

  Replay& replay_;
  const RunOperations& run_;
  std::vector<Cursor> at_;  ///< by rank
  std::vector<int> open_;   ///< ranks that can go on
  std::unordered_map<std::uint64_t, InFlight> in_flight_;
  /// By the members' operations: the messages of a collective.
  std::map<std::vector<std::uint32_t>, std::vector<std::vector<MetaStep>>> messages_;
  std::vector<int> starting_;  ///< ranks that wait for a common start
};

void Replay::Player::play() {
  for (std::size_t rank = at_.size(); rank-- > 0;) open_.push_back(static_cast<int>(rank));
  while (!open_.empty()) {
    const int rank = open_.back();
    open_.pop_back();
    advance(rank);
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
  const auto& sections = run_.ranks[static_cast<std::size_t>(rank)].sections;
  for (; at.section < sections.size(); ++at.section, at.position = 0) {
    const auto& list = run_.lists[sections[at.section].list];
    if (at.section == mine.sections.size()) begin_section(rank);
    for (; at.position < list.size(); ++at.position) {
      const std::uint32_t index = list[at.position];
      const RecordedOperation& operation = run_.operations[index];
      switch (operation.kind) {
        case Kind::kernel:
        case Kind::begin:
        case Kind::end:
          at.time += durations[index];
          check(at.time);
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
  if (at.waits_for == -2) {  // the others have arrived, and have set the time
    at.waits_for = -1;
    state(rank).stops.push_back(at.time);
    return true;
  }
  starting_.push_back(rank);
  if (starting_.size() < at_.size()) return false;
  const int last = *std::ranges::max_element(starting_, {}, [&](int each) {
    return std::pair{cursor(each).time, -each};
  });
  replay_.last_to_start_.push_back(last);
  for (const int each : starting_) {
    cursor(each).time = cursor(last).time;
    cursor(each).waits_for = -2;
    if (each != rank) open_.push_back(each);
  }
  starting_.clear();
  return start_together(rank);
}

void Replay::Player::send(int rank, const RecordedOperation& operation) {
  const int to = rank + operation.peer;
  Cursor& at = cursor(rank);
  Lane& lane = at.send[operation.stream];
  const Passage passage = depart(replay_.scenario_.links(operation.axis), rank, to, operation.bytes,
                                 at.time, lane.free);
  check(passage.end);
  auto& issued = state(rank).issued;
  const auto number = static_cast<std::int32_t>(issued.size());
  issued.push_back({passage.start, passage.end, std::exchange(lane.last, number)});
  InFlight& messages = in_flight(rank, to, operation.channel);
  messages.sent.push_back({number, operation.bytes});
  if (messages.waiting >= 0) settle(to, std::exchange(messages.waiting, -1));
}

void Replay::Player::receive(int rank, const RecordedOperation& operation) {
  Lane& lane = cursor(rank).receive[operation.stream];
  auto& issued = state(rank).issued;
  const auto number = static_cast<std::int32_t>(issued.size());
  issued.push_back({-1, -1, std::exchange(lane.last, number)});
  lane.unmatched.push_back({number, &operation});
  if (lane.unmatched.size() == 1) settle(rank, operation.stream);
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
    if (bytes != operation->bytes)
      refuse(fmt::format("rank {} sends {} bytes to rank {}, which expects {}", from, bytes, rank,
                         operation->bytes));
    const Picoseconds departure = state(from).issued[static_cast<std::size_t>(sent)].start;
    state(rank).issued[static_cast<std::size_t>(number)].sent = sent;
    ends(rank, number,
         arrive(replay_.scenario_.links(operation->axis), from, rank, bytes, departure, lane.free));
  }
}

void Replay::Player::ends(int rank, std::int32_t number, Passage passage) {
  RankState::Issued& issued = state(rank).issued[static_cast<std::size_t>(number)];
  issued.start = passage.start;
  issued.end = passage.end;
  check(passage.end);
  Cursor& at = cursor(rank);
  if (at.waits_for != number) return;
  at.waits_for = -1;
  open_.push_back(rank);
}

void Replay::Player::call(int rank, std::uint32_t index) {
  RankState& mine = state(rank);
  const auto number = static_cast<std::int32_t>(mine.issued.size());
  const Picoseconds ready = cursor(rank).time;
  mine.issued.push_back({ready, -1});
  const auto group_index = static_cast<std::size_t>(run_.operations[index].group);
  GroupState& group = *replay_.groups_[mine.groups[group_index]];
  const std::size_t member = group.member(rank);
  auto& calls = group.calls[member];
  const std::size_t round = calls.size() - group.played;
  calls.push_back(number);
  if (round == group.rounds.size())
    group.rounds.push_back({std::vector<std::uint32_t>(group.ranks.size()),
                            std::vector<Picoseconds>(group.ranks.size())});
  GroupState::Round& calling = group.rounds[round];
  calling.operations[member] = index;
  calling.ready[member] = ready;
  if (++calling.arrived == group.ranks.size()) play_round(group);
}

void Replay::Player::play_round(GroupState& group) {
  const GroupState::Round round = std::move(group.rounds.front());
  group.rounds.pop_front();
  auto found = messages_.find(round.operations);
  if (found == messages_.end()) {
    std::vector<const Collective*> collectives;
    for (const std::uint32_t index : round.operations)
      collectives.push_back(&run_.operations[index].collective);
    for (std::size_t member = 1; member < collectives.size(); ++member) {
      const Collective &one = *collectives[0], &other = *collectives[member];
      if (one.operation != other.operation || one.algorithm != other.algorithm ||
          one.elements != other.elements || one.dtype != other.dtype || one.root != other.root)
        refuse(fmt::format("ranks {} and {} call different collectives of their group",
                           group.ranks[0], group.ranks[member]));
    }
    found = messages_.emplace(round.operations, messages_of(collectives)).first;
    double sum = 0;
    for (const auto& steps : found->second)
      for (const MetaStep& step : steps) sum += longest_passage(group.cluster, step.bytes);
    if (sum > static_cast<double>(latest)) refuse("they take more than 46 days");
  }
  for (std::size_t member = 0; member < group.members.size(); ++member) {
    MetaMember& each = group.members[member];
    group.lanes.push_back({each.send_free, each.receive_free});
    each.begin(found->second[member], round.ready[member], /*traced_=*/false);
  }
  try {
    group.player.play(group.members);
  } catch (const StepPlayer::Misfit& misfit) {
    refuse(fmt::format("in a collective, rank {} sends {} bytes to rank {}, which expects {}",
                       group.ranks[static_cast<std::size_t>(misfit.sender)], misfit.sent,
                       group.ranks[static_cast<std::size_t>(misfit.receiver)], misfit.expected));
  }
  const std::size_t played = group.played++;
  for (std::size_t member = 0; member < group.members.size(); ++member)
    ends(group.ranks[member], group.calls[member][played],
         {round.ready[member], group.members[member].end});
}

// -- what a replay knows
// ----------------------------------------------------------------------------

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
      if (is_new) groups_.push_back(std::make_unique<GroupState>(members, scenario.links(name)));
      mine.groups.push_back(found->second);
    }
    const double slowness = scenario.modelled().slowness(static_cast<int>(rank));
    auto& durations = durations_[slowness];
    mine.durations = &durations;
    if (durations.empty() && !run.operations.empty()) {
      const Clock clock = Clock::modelled(scenario.modelled(), static_cast<int>(rank));
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
  for (const auto& [step, list] :
       run_.ranks.empty() ? std::vector<RunOperations::Section>{} : run_.ranks.front().sections)
    last = std::max(last, step);
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

Picoseconds Replay::duration(int rank, std::uint32_t operation) const {
  return (*ranks_[static_cast<std::size_t>(rank)].durations)[operation];
}

void Replay::visit(int rank, std::size_t section,
                   const std::function<void(const Timed&)>& each) const {
  const RankState& mine = ranks_[static_cast<std::size_t>(rank)];
  const RankState::Section& at = mine.sections[section];
  const auto& list = run_.lists[run_.ranks[static_cast<std::size_t>(rank)].sections[section].list];
  Picoseconds time = at.begin;
  std::size_t stops = at.stops, issued = at.issued;
  for (const std::uint32_t index : list) {
    const RecordedOperation& operation = run_.operations[index];
    switch (operation.kind) {
      case Kind::kernel:
      case Kind::begin:
      case Kind::end: {
        const Picoseconds start = std::exchange(time, time + duration(rank, index));
        each({operation, start, time});
        break;
      }
      case Kind::send:
      case Kind::receive:
      case Kind::collective: {
        const RankState::Issued& found = mine.issued[issued];
        each({operation, found.start, found.end, static_cast<std::int64_t>(issued++)});
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
  for (; from < position; ++from) time += duration(rank, run_.lists[index][from]);
  return time;
}

std::vector<Replay::Exchange> Replay::expand(int rank, std::int64_t issued) const {
  // The section in which the rank issued it.
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
  const GroupState& group = *groups_[mine.groups[group_number]];
  const auto& calls = group.calls[group.member(rank)];
  const auto round = static_cast<std::size_t>(
      std::ranges::lower_bound(calls, static_cast<std::int32_t>(issued)) - calls.begin());

  std::vector<Exchange> exchanges(group.ranks.size());
  std::vector<const Collective*> collectives;
  for (std::size_t member = 0; member < exchanges.size(); ++member) {
    const std::int32_t number = group.calls[member][round];
    collectives.push_back(&run_.operations[operation_of(group.ranks[member], number)].collective);
    const auto& [send_free, receive_free] = group.lanes[round * group.ranks.size() + member];
    exchanges[member] = {.rank = group.ranks[member],
                         .ready = ranks_[static_cast<std::size_t>(group.ranks[member])]
                                      .issued[static_cast<std::size_t>(number)]
                                      .start,
                         .issued = number,
                         .before = round > 0 ? group.calls[member][round - 1] : RankState::none,
                         .send_free = send_free,
                         .receive_free = receive_free};
  }
  auto steps = messages_of(collectives);
  std::vector<MetaMember> members(exchanges.size());
  for (std::size_t member = 0; member < exchanges.size(); ++member) {
    members[member].send_free = exchanges[member].send_free;
    members[member].receive_free = exchanges[member].receive_free;
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
