#include "core/comm/meta_meetings.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/comm/threads_transport.h"

namespace lockstep {

/// One collective: the calls of the members that have come.
struct MetaMeetings::Round {
  enum class State { gathering, playing, done, failed };

  explicit Round(std::size_t size) : calls(size), outcomes(size) {}

  /// Written under the lock. Whoever reads `done` may read the outcomes without it.
  std::atomic<State> state = State::gathering;
  std::vector<std::optional<MetaCall>> calls;  ///< by member
  std::vector<MetaOutcome> outcomes;           ///< by member, once done
  std::size_t came = 0;
  int missing = 0;           ///< a rank that has not come: the one that the others wait for
  std::vector<int> waiters;  ///< agents that wait for the end of this round
};

/// One group's collectives, and where its members stand.
struct MetaMeetings::Meeting {
  Meeting(const std::vector<int>& group, const Cluster& cluster)
      : ranks(group), player(group, cluster), members(group.size()), seats(group.size()) {}

  struct SeatState {
    bool taken = false;
    bool finished = false;   ///< its rank has finished
    std::int64_t calls = 0;  ///< so far
    /// The first call that was withdrawn, and how error messages put it.
    std::optional<std::int64_t> withdrawn;
    std::string why;
  };

  std::vector<int> ranks;
  // For whoever evaluates: the player, and its members, whose memory serves for all rounds.
  StepPlayer player;
  std::vector<MetaMember> members;
  std::vector<SeatState> seats;
  std::deque<std::shared_ptr<Round>> rounds;  ///< those not done, in order
  std::int64_t first = 0;                     ///< the number of rounds.front()

  std::shared_ptr<Round> round(std::int64_t number) {
    while (first + static_cast<std::int64_t>(rounds.size()) <= number) {
      rounds.push_back(std::make_shared<Round>(ranks.size()));
      point(*rounds.back());
    }
    return rounds[static_cast<std::size_t>(number - first)];
  }
  /// Chooses the rank that the others wait for: one that has finished, if there is any.
  void point(Round& round) const {
    std::optional<std::size_t> missing;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (round.calls[i] || (missing && !seats[i].finished)) continue;
      missing = i;
      if (seats[i].finished) break;
    }
    if (missing) round.missing = ranks[*missing];
  }
  void evaluate(Round& round);
};

// No two threads evaluate at once: a round is done before its last member can come to the next.
void MetaMeetings::Meeting::evaluate(Round& round) {
  const int size = static_cast<int>(ranks.size());
  for (int i = 0; i < size; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const MetaCall& call = *round.calls[index];
    MetaMember& member = members[index];
    member.begin(call.ready, call.traced);
    StepRecorder recorder{i, size, member.steps};
    call.algorithm(recorder);
  }
  player.play(members);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    MetaOutcome& outcome = round.outcomes[i];
    outcome.end = members[i].end;
    outcome.bytes_sent = members[i].bytes_sent;
    if (!members[i].traced) continue;
    outcome.steps = members[i].steps;
    outcome.passages = members[i].passages;
  }
}

class MetaMeetings::Attendance final : public MetaAttendance {
 public:
  Attendance(ThreadFabric& fabric, std::shared_ptr<Meeting> meeting, std::shared_ptr<Round> round,
             std::size_t member, std::int64_t number)
      : fabric_(fabric),
        meeting_(std::move(meeting)),
        round_(std::move(round)),
        member_(member),
        number_(number) {}
  ~Attendance() override { withdraw(); }

  const MetaOutcome& wait() override;
  bool done() const override { return is(Round::State::done); }

 private:
  bool is(Round::State state) const { return round_ && round_->state == state; }
  Meeting::SeatState& seat() const { return meeting_->seats[member_]; }
  int agent() const { return meeting_->ranks[member_]; }  // a rank's own thread
  void withdraw();

  ThreadFabric& fabric_;
  std::shared_ptr<Meeting> meeting_;
  std::shared_ptr<Round> round_;  ///< null: the run had failed, or an earlier call was withdrawn
  std::size_t member_;
  std::int64_t number_;
};

const MetaOutcome& MetaMeetings::Attendance::wait() {
  if (done()) return round_->outcomes[member_];
  std::unique_lock lock{fabric_.mutex_};
  if (done()) return round_->outcomes[member_];
  if (seat().withdrawn && *seat().withdrawn < number_) throw RunError(seat().why);
  if (!fabric_.failure_.empty()) throw RunError(fabric_.failure_);
  round_->waiters.push_back(agent());
  if (is(Round::State::gathering)) {
    fabric_.graph_.waits(agent(),
                         WaitGraph::ForMember{&round_->missing, round_->calls[member_]->route});
    fabric_.check(fabric_.graph_.deadlock(agent()));
  }
  fabric_.sleep(lock, agent(), [&] {
    return done() || is(Round::State::failed) || !fabric_.failure_.empty();
  });
  fabric_.graph_.runs(agent());
  std::erase(round_->waiters, agent());
  if (done()) return round_->outcomes[member_];
  throw RunError(fabric_.failure_);
}

void MetaMeetings::Attendance::withdraw() {
  if (!round_ || done()) return;
  std::unique_lock lock{fabric_.mutex_};
  if (is(Round::State::playing)) {
    round_->waiters.push_back(agent());
    fabric_.sleeper(agent()).wake.wait(lock, [&] { return !is(Round::State::playing); });
    std::erase(round_->waiters, agent());
  }
  if (!is(Round::State::gathering) || !round_->calls[member_]) return;
  if (!seat().withdrawn || number_ < *seat().withdrawn) {
    seat().withdrawn = number_;
    seat().why = dropped(agent(), round_->calls[member_]->route);
  }
  // Without this call the later ones no longer go together with those of the others.
  for (std::int64_t later = number_; later < seat().calls; ++later) {
    Round& round = *meeting_->round(later);
    if (!round.calls[member_]) continue;
    round.calls[member_].reset();
    --round.came;
    meeting_->point(round);
    if (!round.waiters.empty())
      fabric_.check(fabric_.graph_.deadlock(round.waiters.front()));
  }
}

class MetaMeetings::Seat final : public MetaSeat {
 public:
  Seat(ThreadFabric& fabric, std::shared_ptr<Meeting> meeting, std::size_t member)
      : fabric_(fabric), meeting_(std::move(meeting)), member_(member) {}

  std::unique_ptr<MetaAttendance> come(MetaCall call) override;

 private:
  /// All have come: tells those that wait when it is evaluated.
  void evaluate(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Round>& round);
  void disagree(const Round& round, std::size_t other, const MetaCall& call) const;

  ThreadFabric& fabric_;
  std::shared_ptr<Meeting> meeting_;
  std::size_t member_;
};

std::unique_ptr<MetaAttendance> MetaMeetings::Seat::come(MetaCall call) {
  std::unique_lock lock{fabric_.mutex_};
  Meeting::SeatState& seat = meeting_->seats[member_];
  const std::int64_t number = seat.calls++;
  const auto attends = [&](std::shared_ptr<Round> round) {
    return std::make_unique<Attendance>(fabric_, meeting_, std::move(round), member_, number);
  };
  if (seat.withdrawn || !fabric_.failure_.empty()) return attends(nullptr);

  std::shared_ptr<Round> round = meeting_->round(number);
  for (std::size_t i = 0; i < round->calls.size() && round->came > 0; ++i) {
    if (!round->calls[i]) continue;
    if (!same_call(round->calls[i]->route, call.route)) {
      disagree(*round, i, call);
      return attends(nullptr);
    }
    break;  // it agrees with the others
  }
  round->calls[member_] = std::move(call);
  if (++round->came == round->calls.size()) {
    evaluate(lock, round);
  } else if (round->missing == meeting_->ranks[member_]) {
    meeting_->point(*round);
    if (!round->waiters.empty())
      fabric_.check(fabric_.graph_.deadlock(round->waiters.front()));
  }
  return attends(std::move(round));
}

void MetaMeetings::Seat::evaluate(std::unique_lock<std::mutex>& lock,
                                  const std::shared_ptr<Round>& round) {
  // They can run from this moment on, whenever their threads get a core.
  for (const int agent : round->waiters) fabric_.graph_.runs(agent);
  round->state = Round::State::playing;
  lock.unlock();
  std::string failure;
  try {
    meeting_->evaluate(*round);
  } catch (const StepPlayer::Misfit& misfit) {
    const auto end = [&](int member, std::int64_t bytes) {
      const Route& route = round->calls[static_cast<std::size_t>(member)]->route;
      return MessageEnd{meeting_->ranks[static_cast<std::size_t>(member)], route, bytes,
                        place(route.where)};
    };
    failure = mismatch(end(misfit.sender, misfit.sent), end(misfit.receiver, misfit.expected));
  } catch (const std::exception& error) {
    failure = error.what();
  }
  lock.lock();
  round->state = failure.empty() ? Round::State::done : Round::State::failed;
  if (!failure.empty()) fabric_.fail_locked(failure);
  for (const int agent : round->waiters) fabric_.sleeper(agent).wake.notify_all();
  if (!failure.empty()) return;
  round->calls.clear();
  meeting_->rounds.pop_front();
  ++meeting_->first;
}

// A collective of which only single messages have a size is told by this member's first one.
void MetaMeetings::Seat::disagree(const Round& round, std::size_t other,
                                  const MetaCall& call) const {
  const int size = static_cast<int>(meeting_->ranks.size());
  const auto end = [&](std::size_t member, const MetaCall& theirs) {
    std::vector<MetaStep> steps;
    StepRecorder recorder{static_cast<int>(member), size, steps};
    theirs.algorithm(recorder);
    return MessageEnd{meeting_->ranks[member], theirs.route,
                      steps.empty() ? 0 : steps.front().bytes, place(theirs.route.where)};
  };
  fabric_.fail_locked(mismatch(end(member_, call), end(other, *round.calls[other])));
}

MetaMeetings::~MetaMeetings() = default;

// A group that is made again, with the same channels, meets anew: its first meeting has this
// member's seat taken.
std::unique_ptr<MetaSeat> MetaMeetings::seat(int rank, const std::vector<int>& ranks, int channel,
                                             const Cluster& cluster) {
  const auto member =
      static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  std::lock_guard lock{fabric_.mutex_};
  const auto entry = open_.try_emplace({channel, ranks}).first;
  auto& meetings = entry->second;
  auto found = std::find_if(meetings.begin(), meetings.end(), [&](const auto& each) {
    return !each->seats[member].taken;
  });
  if (found == meetings.end()) {
    meetings.push_back(std::make_shared<Meeting>(ranks, cluster));
    found = meetings.end() - 1;
  }
  const std::shared_ptr<Meeting> meeting = *found;
  meeting->seats[member].taken = true;
  if (std::ranges::all_of(meeting->seats, &Meeting::SeatState::taken)) {
    meetings.erase(found);
    if (meetings.empty()) open_.erase(entry);
  }
  of_rank_[rank].push_back(meeting);
  return std::make_unique<Seat>(fabric_, meeting, member);
}

void MetaMeetings::finished(int rank) {
  for (const std::weak_ptr<Meeting>& each : of_rank_[rank]) {
    const auto meeting = each.lock();
    if (!meeting) continue;
    for (std::size_t i = 0; i < meeting->ranks.size(); ++i)
      if (meeting->ranks[i] == rank) meeting->seats[i].finished = true;
    for (const auto& round : meeting->rounds)
      if (round->state == Round::State::gathering) meeting->point(*round);
  }
}

}  // namespace lockstep
