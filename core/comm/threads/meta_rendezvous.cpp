#include "core/comm/threads/meta_rendezvous.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/comm/shared/member_collectives.h"
#include "core/comm/threads/fabric_time.h"

namespace lockstep {

/// One collective, and the calls that members have made so far.
struct MetaRendezvous::Round {
  enum class State { gathering, playing, done, failed };

  explicit Round(std::size_t size)
      : calls(size),
        outcomes(size),
        steps(size),
        ended(std::make_unique<std::atomic<bool>[]>(size)) {}
  /// Whether a member's outcome is available.
  bool is_done(std::size_t member) const { return state == State::done || ended[member]; }

  /// Written under the lock. A thread that reads State::done may read the outcomes without the
  /// lock.
  std::atomic<State> state = State::gathering;
  std::vector<std::optional<MetaCall>> calls;  ///< by member
  std::vector<MetaOutcome> outcomes;           ///< by member, once done
  /// By member, with shared links: its messages.
  std::vector<std::shared_ptr<const std::vector<MetaStep>>> steps;
  std::unique_ptr<std::atomic<bool>[]> ended;  ///< by member: with shared links, like State::done
  std::size_t arrived = 0;
  int missing = 0;           ///< a rank that has not called; the others wait for it
  std::vector<int> waiters;  ///< agents waiting for the end of this round
};

/// The collectives of one group, and the state of its members.
struct MetaRendezvous::MetaGroup {
  /// `network` times messages on shared links; null if links are not shared.
  MetaGroup(const std::vector<int>& group, int channel, const Cluster& cluster_,
            SharedNetwork* network)
      : ranks(group),
        cluster(cluster_),
        player(group, cluster),
        steps(group.size()),
        members(group.size()),
        states(group.size()) {
    if (network != nullptr)
      plays = MemberCollectives::of_group(*network, cluster, ranks, ranks.size(), channel);
  }

  struct MemberState {
    bool joined = false;
    bool finished = false;                  ///< whether the member's rank has finished
    std::int64_t calls = 0;                 ///< number of this member's calls so far
    std::optional<std::int64_t> withdrawn;  ///< number of the first call that was withdrawn
    std::string why;                        ///< the error that all later calls throw
  };

  std::vector<int> ranks;
  const Cluster cluster;
  std::vector<std::unique_ptr<MemberCollectives>> plays;  ///< by member, if links are shared
  // Used only by the thread that evaluates a round. The members keep the memory of their recorded
  // steps from round to round.
  StepPlayer player;
  std::vector<std::vector<MetaStep>> steps;  ///< by member
  std::vector<MetaMember> members;
  std::vector<MemberState> states;
  std::deque<std::shared_ptr<Round>> rounds;  ///< not done yet, in order
  std::int64_t first = 0;                     ///< number of rounds.front()

  std::shared_ptr<Round> round(std::int64_t number) {
    while (first + static_cast<std::int64_t>(rounds.size()) <= number) {
      rounds.push_back(std::make_shared<Round>(ranks.size()));
      choose_missing(*rounds.back());
    }
    return rounds[static_cast<std::size_t>(number - first)];
  }
  /// Sets round.missing. Prefers a rank that has finished without calling the collective, so that
  /// the run fails immediately.
  void choose_missing(Round& round) const {
    std::optional<std::size_t> missing;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (round.calls[i] || (missing && !states[i].finished)) continue;
      missing = i;
      if (states[i].finished) break;
    }
    if (missing) round.missing = ranks[*missing];
  }
  void evaluate(Round& round);
};

// Two threads never evaluate rounds of one group at once, because the next round needs a call from
// the member that evaluates this round.
void MetaRendezvous::MetaGroup::evaluate(Round& round) {
  const int size = static_cast<int>(ranks.size());
  for (int i = 0; i < size; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const MetaCall& call = *round.calls[index];
    steps[index].clear();
    StepRecorder recorder{i, size, steps[index]};
    call.algorithm(recorder);
    members[index].begin(steps[index], call.ready, call.traced);
  }
  player.play(members);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    MetaOutcome& outcome = round.outcomes[i];
    outcome.end = members[i].end;
    outcome.bytes_sent = members[i].bytes_sent;
    if (!members[i].traced) continue;
    outcome.steps = steps[i];
    outcome.passages = members[i].passages;
  }
}

class MetaRendezvous::Issued final : public MetaPending {
 public:
  Issued(ThreadFabric& fabric, std::shared_ptr<MetaGroup> group, std::shared_ptr<Round> round,
         std::size_t member, std::int64_t number)
      : fabric_(fabric),
        group_(std::move(group)),
        round_(std::move(round)),
        member_(member),
        number_(number) {}
  ~Issued() override { withdraw(); }

  const MetaOutcome& wait() override;
  bool done() const override { return round_ && round_->is_done(member_); }

 private:
  bool is(Round::State state) const { return round_ && round_->state == state; }
  MetaGroup::MemberState& state() const { return group_->states[member_]; }
  int agent() const { return group_->ranks[member_]; }  ///< the rank's own thread
  void withdraw();

  ThreadFabric& fabric_;
  std::shared_ptr<MetaGroup> group_;
  std::shared_ptr<Round> round_;  ///< null if the run had failed, or an earlier call was withdrawn
  std::size_t member_;
  std::int64_t number_;
};

const MetaOutcome& MetaRendezvous::Issued::wait() {
  if (done()) return round_->outcomes[member_];
  std::unique_lock lock{fabric_.mutex_};
  if (done()) return round_->outcomes[member_];
  if (state().withdrawn && *state().withdrawn < number_) throw RunError(state().why);
  if (!fabric_.failure_.empty()) fabric_.throw_failure();
  round_->waiters.push_back(agent());
  if (is(Round::State::gathering)) {
    fabric_.graph_.waits(agent(),
                         WaitGraph::ForMember{&round_->missing, round_->calls[member_]->route});
    fabric_.stopped(agent());
  } else if (!group_->plays.empty()) {
    fabric_.graph_.waits(agent(), WaitGraph::ForTime{round_->calls[member_]->route});
    fabric_.stopped(agent());
  }
  fabric_.sleep(lock, agent(),
                [&] { return done() || is(Round::State::failed) || !fabric_.failure_.empty(); });
  fabric_.graph_.runs(agent());
  std::erase(round_->waiters, agent());
  if (done()) return round_->outcomes[member_];
  fabric_.throw_failure();
}

void MetaRendezvous::Issued::withdraw() {
  if (!round_ || done()) return;
  std::unique_lock lock{fabric_.mutex_};
  if (!group_->plays.empty()) {  // some of its messages may be in flight
    if (!state().withdrawn || number_ < *state().withdrawn) {
      state().withdrawn = number_;
      state().why = dropped(agent(), round_->calls[member_]->route);
    }
    return;
  }
  if (is(Round::State::playing)) {
    round_->waiters.push_back(agent());
    fabric_.sleeper(agent()).wake.wait(lock, [&] { return !is(Round::State::playing); });
    std::erase(round_->waiters, agent());
  }
  if (!is(Round::State::gathering) || !round_->calls[member_]) return;
  if (!state().withdrawn || number_ < *state().withdrawn) {
    state().withdrawn = number_;
    state().why = dropped(agent(), round_->calls[member_]->route);
  }
  // This member's later calls no longer match the other members' calls.
  for (std::int64_t later = number_; later < state().calls; ++later) {
    Round& round = *group_->round(later);
    if (!round.calls[member_]) continue;
    round.calls[member_].reset();
    --round.arrived;
    group_->choose_missing(round);
    if (!round.waiters.empty()) fabric_.stopped(round.waiters.front());
  }
}

class MetaRendezvous::Member final : public MetaCollectives {
 public:
  Member(ThreadFabric& fabric, std::shared_ptr<MetaGroup> group, std::size_t member)
      : fabric_(fabric), group_(std::move(group)), member_(member) {}

  std::unique_ptr<MetaPending> issue(MetaCall call) override;

 private:
  /// With shared links: begins this member's part in the round at once, because its messages may be
  /// in flight before the other members call.
  void begin(const std::shared_ptr<Round>& round, const MetaCall& call);
  /// With shared links: ends the gathering of a round that all members have called.
  void all_called(Round& round);
  /// Returns the message of an error: the calls of two members do not match.
  std::string mismatch_of(const Round& round, const Misfit& misfit) const;
  /// Evaluates a round that all members have called, and wakes the waiters. Releases the lock
  /// during the evaluation.
  void evaluate(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Round>& round);
  /// Fails the run because `call` differs from the call of member `other`.
  void disagree(const Round& round, std::size_t other, const MetaCall& call) const;

  ThreadFabric& fabric_;
  std::shared_ptr<MetaGroup> group_;
  std::size_t member_;
};

std::unique_ptr<MetaPending> MetaRendezvous::Member::issue(MetaCall call) {
  std::unique_lock lock{fabric_.mutex_};
  MetaGroup::MemberState& mine = group_->states[member_];
  const std::int64_t number = mine.calls++;
  const auto issued = [&](std::shared_ptr<Round> round) {
    return std::make_unique<Issued>(fabric_, group_, std::move(round), member_, number);
  };
  if (mine.withdrawn || !fabric_.failure_.empty()) return issued(nullptr);

  std::shared_ptr<Round> round = group_->round(number);
  for (std::size_t i = 0; i < round->calls.size() && round->arrived > 0; ++i) {
    if (!round->calls[i]) continue;
    if (!same_call(round->calls[i]->route, call.route)) {
      disagree(*round, i, call);
      return issued(nullptr);
    }
    break;  // the other calls agree with this one
  }
  round->calls[member_] = std::move(call);
  const bool shared = !group_->plays.empty();
  if (shared) begin(round, *round->calls[member_]);
  if (++round->arrived == round->calls.size()) {
    if (shared)
      all_called(*round);
    else
      evaluate(lock, round);
  } else if (round->missing == group_->ranks[member_]) {
    group_->choose_missing(*round);
    if (!round->waiters.empty()) fabric_.stopped(round->waiters.front());
  }
  return issued(std::move(round));
}

void MetaRendezvous::Member::begin(const std::shared_ptr<Round>& round, const MetaCall& call) {
  auto steps = std::make_shared<std::vector<MetaStep>>();
  StepRecorder recorder{static_cast<int>(member_), static_cast<int>(group_->ranks.size()), *steps};
  call.algorithm(recorder);
  const auto ended = [&fabric = fabric_, round, member = member_, rank = group_->ranks[member_],
                      traced = call.traced, known = call.ended,
                      steps](MemberCollectives::Ended play) {
    if (known) known(play.end);
    MetaOutcome& outcome = round->outcomes[member];
    outcome.end = play.end;
    for (const MetaStep& step : *steps)
      if (step.direction == Direction::send)
        outcome.bytes_sent = outcome.bytes_sent.value_or(0) + step.bytes;
    if (traced) {
      outcome.steps = *steps;
      outcome.passages = std::move(play.passages);
    }
    round->ended[member] = true;
    if (std::ranges::count(round->waiters, rank) > 0) fabric.released(rank);
  };
  round->steps[member_] = steps;
  group_->plays[member_]->call({.steps = std::move(steps),
                                .ready = call.ready,
                                .keeps_passages = call.traced,
                                .ended = ended});
}

void MetaRendezvous::Member::all_called(Round& round) {
  // Only an all-to-all needs this check, because the members of other collectives agree on one
  // size.
  if (round.calls[member_]->route.operation == std::string_view{"all_to_all"}) {
    std::vector<std::span<const MetaStep>> steps;
    for (const auto& each : round.steps) steps.emplace_back(*each);
    if (const auto misfit = misfit_of(steps))
      return fabric_.fail_locked(mismatch_of(round, *misfit));
  }
  round.state = Round::State::playing;
  for (std::size_t member = 0; member < round.calls.size(); ++member)
    if (const int agent = group_->ranks[member];
        std::ranges::count(round.waiters, agent) > 0 && fabric_.graph_.waits(agent))
      fabric_.graph_.waits(agent, WaitGraph::ForTime{round.calls[member]->route});
  round.steps.clear();
  group_->rounds.pop_front();
  ++group_->first;
}

void MetaRendezvous::Member::evaluate(std::unique_lock<std::mutex>& lock,
                                      const std::shared_ptr<Round>& round) {
  // From here on the waiters count as running; otherwise the graph might report a deadlock.
  for (const int agent : round->waiters) fabric_.graph_.runs(agent);
  round->state = Round::State::playing;
  lock.unlock();
  std::string failure;
  bool impossible = false;
  try {
    group_->evaluate(*round);
  } catch (const Misfit& misfit) {
    failure = mismatch_of(*round, misfit);
  } catch (const UsageError& error) {
    failure = error.what();
    impossible = true;
  } catch (const std::exception& error) {
    failure = error.what();
  }
  lock.lock();
  round->state = failure.empty() ? Round::State::done : Round::State::failed;
  if (!failure.empty()) fabric_.fail_locked(failure, impossible);
  for (const int agent : round->waiters) fabric_.sleeper(agent).wake.notify_all();
  if (!failure.empty()) return;
  round->calls.clear();
  group_->rounds.pop_front();
  ++group_->first;
}

std::string MetaRendezvous::Member::mismatch_of(const Round& round, const Misfit& misfit) const {
  const auto end = [&](int member, std::int64_t bytes) {
    const Route& route = round.calls[static_cast<std::size_t>(member)]->route;
    return MessageEnd{group_->ranks[static_cast<std::size_t>(member)], route, bytes,
                      place(route.where)};
  };
  return mismatch(end(misfit.sender, misfit.sent), end(misfit.receiver, misfit.expected));
}

// The members of an all_to_all have no common size, so the error message gives the size of each
// member's first step.
void MetaRendezvous::Member::disagree(const Round& round, std::size_t other,
                                      const MetaCall& call) const {
  const int size = static_cast<int>(group_->ranks.size());
  const auto end = [&](std::size_t member, const MetaCall& theirs) {
    std::vector<MetaStep> steps;
    StepRecorder recorder{static_cast<int>(member), size, steps};
    theirs.algorithm(recorder);
    return MessageEnd{group_->ranks[member], theirs.route, steps.empty() ? 0 : steps.front().bytes,
                      place(theirs.route.where)};
  };
  fabric_.fail_locked(mismatch(end(member_, call), end(other, *round.calls[other])));
}

MetaRendezvous::~MetaRendezvous() = default;

// If a Group is destroyed and recreated with the same channels, this member may already have joined
// the first MetaGroup of that key. In that case it joins or creates the next MetaGroup.
std::unique_ptr<MetaCollectives> MetaRendezvous::join(int rank, const std::vector<int>& ranks,
                                                      int channel, const Cluster& cluster) {
  const auto member =
      static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  SharedNetwork* network = cluster.shared ? &fabric_.time(cluster).network() : nullptr;
  std::lock_guard lock{fabric_.mutex_};
  const auto entry = open_.try_emplace({channel, ranks}).first;
  auto& groups = entry->second;
  auto found = std::find_if(groups.begin(), groups.end(),
                            [&](const auto& each) { return !each->states[member].joined; });
  if (found == groups.end()) {
    groups.push_back(std::make_shared<MetaGroup>(ranks, channel, cluster, network));
    if (network != nullptr) sharing_.push_back(groups.back());
    found = groups.end() - 1;
  }
  const std::shared_ptr<MetaGroup> group = *found;
  group->states[member].joined = true;
  if (std::ranges::all_of(group->states, &MetaGroup::MemberState::joined)) {
    groups.erase(found);
    if (groups.empty()) open_.erase(entry);
  }
  of_rank_[rank].push_back(group);
  return std::make_unique<Member>(fabric_, group, member);
}

void MetaRendezvous::finished(int rank) {
  for (const std::weak_ptr<MetaGroup>& each : of_rank_[rank]) {
    const auto group = each.lock();
    if (!group) continue;
    for (std::size_t i = 0; i < group->ranks.size(); ++i)
      if (group->ranks[i] == rank) group->states[i].finished = true;
    for (const auto& round : group->rounds)
      if (round->state == Round::State::gathering) group->choose_missing(*round);
  }
}

}  // namespace lockstep
