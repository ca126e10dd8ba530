#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/transport/busy_rank.h"
#include "lessons/20_when_ranks_die/ballot.h"
#include "lessons/20_when_ranks_die/coordinator.h"
#include "lessons/20_when_ranks_die/faults.h"
#include "lessons/20_when_ranks_die/member_network.h"

namespace lockstep {

/// A coordinator for ranks that are threads, as torchft's lighthouse is one for processes. It lives
/// apart from the ranks, so it survives any of them, and its decisions are atomic: no member can
/// learn that a step counts while another learns that it does not.
///
/// The members of a quorum have a network of their own. When one is lost, this network fails, so
/// every wait in it ends at once; the survivors then meet here and get a new one.
class Lighthouse final : public Coordinator {
 public:
  /// What happened, in order, for the report.
  struct Event {
    int step = 0;
    std::string text;
  };

  /// Drops a member that neither arrives nor computes for `patience_seconds`. Waits for a returning
  /// rank in the step that `faults` gives, so that runs are repeatable.
  Lighthouse(int ranks, const Faults& faults, double patience_seconds)
      : faults_(faults), patience_(patience_seconds) {
    for (int rank = 0; rank < ranks; ++rank) {
      alive_.insert(rank);
      current_.insert(rank);
    }
    ranks_ = ranks;
  }

  Quorum quorum(Rank& rank, int step) override {
    rank.transport->check();
    std::unique_lock lock{mutex_};
    if (!failure_.empty()) throw RunError(failure_);
    const bool joins = !alive_.contains(rank.id);
    if (joins && (step < step_ || !faults_.returns_for(rank.id, step))) throw given_up(rank);
    arrived_[rank.id] = {step, rank.compute.now()};
    busy_.try_emplace(rank.id, rank.id, rank.compute);
    decide();
    wait(lock, rank, joins ? Waits::for_its_step : Waits::for_members,
         [&] { return !arrived_.contains(rank.id); });
    if (quorum_.number != last_quorum_[rank.id] && rank.clock.is_modelled())
      rank.compute.wait({latest_},
                        {.name = "quorum", .category = Category::wait, .group = "quorum"});
    last_quorum_[rank.id] = quorum_.number;
    return quorum_;
  }

  Connection connect(Rank& rank, const Quorum& quorum) override {
    return network_of(quorum).connect(rank);
  }
  std::unique_ptr<Transport> connect_savers(Rank& rank, const Quorum& quorum) override {
    return network_of(quorum).connect_savers(rank);
  }

  Vote vote(Rank& rank, const Quorum& quorum, std::uint32_t checksum) override {
    std::unique_lock lock{mutex_};
    if (broken(quorum)) return Vote::retry;
    votes_[rank.id] = checksum;
    latest_ = std::max(latest_, rank.compute.now());
    const int ballot = ballots_;
    if (votes_.size() == quorum_.members.size()) count_votes();
    wait(lock, rank, Waits::for_votes, [&] { return ballots_ != ballot || broken(quorum); });
    if (!alive_.contains(rank.id)) throw given_up(rank);
    return ballots_ != ballot ? outcome_ : Vote::retry;
  }

  void sit_out(Rank& rank, int step) override {
    std::unique_lock lock{mutex_};
    wait(lock, rank, Waits::for_its_step, [&] { return done_ >= step; });
    if (rank.clock.is_modelled()) rank.compute.wait({ended_.at(step)}, absent);
  }

  bool is_broken(const Quorum& quorum) override {
    std::lock_guard lock{mutex_};
    return broken(quorum);
  }

  void leave(Rank& rank, const std::function<void()>& forget) override {
    std::unique_lock lock{mutex_};
    if (alive_.contains(rank.id)) break_connections(fmt::format("rank {} died", rank.id));
    lock.unlock();
    forget();
    lock.lock();
    if (alive_.contains(rank.id)) lose(rank.id, "died");
    decide();
  }

  void abandon(Rank& rank) override {
    std::lock_guard lock{mutex_};
    alive_.erase(rank.id);
    arrived_.erase(rank.id);
    break_connections(fmt::format("rank {} has failed", rank.id));
  }

  void note(int step, const std::string& text) override {
    std::lock_guard lock{mutex_};
    events_.push_back({step, text});
  }

  void stall(Rank& rank) override {
    std::unique_lock lock{mutex_};
    wait(lock, rank, Waits::for_its_step, [&] { return !alive_.contains(rank.id); });
  }

  std::vector<Event> events() const {
    std::lock_guard lock{mutex_};
    return events_;
  }

 private:
  /// How many attempts in a row may fail with the same members, or because of corrupt states.
  static constexpr int most_void_attempts = 3;

  struct Arrival {
    int step = 0;
    Picoseconds time = 0;
  };
  enum class Waits { for_members, for_votes, for_its_step };

  bool broken(const Quorum& quorum) const {
    return quorum.number != quorum_.number || !networks_.back()->failure().empty();
  }
  const MemberNetwork& network_of(const Quorum& quorum) const {
    std::lock_guard lock{mutex_};
    return *networks_[static_cast<std::size_t>(quorum.number)];
  }

  /// Forms the next quorum if everybody who should be in it has arrived.
  void decide() {
    if (alive_.empty()) return;
    const auto first = arrived_.find(*alive_.begin());
    if (first == arrived_.end()) return;
    const int step = first->second.step;
    std::set<int> members = alive_;
    for (int rank = 0; rank < ranks_; ++rank)
      if (faults_.returns_for(rank, step) && !late_.contains({rank, step})) members.insert(rank);
    for (const int rank : members)
      if (const auto found = arrived_.find(rank);
          found == arrived_.end() || found->second.step != step)
        return;
    form(step, members);
  }

  void form(int step, const std::set<int>& members) {
    const std::vector<int> before = quorum_.members;
    const std::vector<int> now{members.begin(), members.end()};
    const std::string why = networks_.empty() ? "" : networks_.back()->failure();
    void_attempts_ = !why.empty() && before == now ? void_attempts_ + 1 : 0;
    if (void_attempts_ == most_void_attempts)
      return throw_later(fmt::format("step {} failed {} times with the same ranks: {}", step,
                                     void_attempts_, why));
    std::vector<int> behind;
    for (const int rank : now)
      if (!current_.contains(rank)) behind.push_back(rank);
    if (behind.size() == now.size())
      return throw_later(
          fmt::format("no rank that is left in step {} has the state: the last one that had it is "
                      "dead; continue from a checkpoint",
                      step));
    quorum_.members = now;
    quorum_.behind = behind;
    latest_ = 0;
    for (const int rank : members) latest_ = std::max(latest_, arrived_[rank].time);
    if (networks_.empty() || before != quorum_.members || !why.empty()) {
      quorum_.number = static_cast<int>(networks_.size());
      networks_.push_back(std::make_unique<MemberNetwork>(ranks_, quorum_, patience_));
      if (!before.empty() && step == step_)
        events_.push_back({step, list_of(quorum_.members) + " attempted the step again"});
    }
    for (const int rank : members)
      if (!alive_.contains(rank)) events_.push_back({step, list_of({rank}) + " returned"});
    if (!quorum_.behind.empty())
      events_.push_back({step, list_of(quorum_.behind) + " took the state from the others"});
    alive_ = members;
    step_ = step;
    votes_.clear();
    for (const int rank : members) arrived_.erase(rank);
    changed_.notify_all();
  }

  void count_votes() {
    const auto corrupt = minority(votes_);
    outcome_ = corrupt && corrupt->empty() ? Vote::commit : Vote::retry;
    if (!corrupt)
      throw_later(
          fmt::format("step {}: the states of ranks {} differ, and no majority agrees, so nothing "
                      "shows whose is corrupt; continue from a checkpoint",
                      step_, fmt::join(quorum_.members, ", ")));
    else if (corrupt->empty())
      counts();
    else
      give_up_states(*corrupt);
    votes_.clear();
    ++ballots_;
    changed_.notify_all();
  }
  /// The step counts.
  void counts() {
    corrupt_attempts_ = 0;
    current_ = alive_;
    done_ = step_;
    ended_[step_] = latest_;
  }
  /// These members are to take the state from the others.
  void give_up_states(const std::vector<int>& corrupt) {
    for (const int rank : corrupt) current_.erase(rank);
    if (++corrupt_attempts_ == most_void_attempts)
      throw_later(
          fmt::format("step {}: the parameters of {} differ from the others' in {} attempts "
                      "in a row, although it has taken the others' state",
                      step_, list_of(corrupt), corrupt_attempts_));
    events_.push_back({step_, fmt::format("the parameters of {} differ from those of the {} others",
                                          list_of(corrupt), votes_.size() - corrupt.size())});
  }

  void break_connections(const std::string& why) {
    if (networks_.empty()) return;
    networks_.back()->fail(why);
    changed_.notify_all();
  }

  void lose(int rank, const std::string& how) {
    alive_.erase(rank);
    current_.erase(rank);
    arrived_.erase(rank);
    const std::string what = fmt::format("rank {} {}", rank, how);
    events_.push_back({step_, what});
    break_connections(what);
    if (alive_.empty())
      throw_later(fmt::format("{} in step {}, and no other rank was left", what, step_));
    changed_.notify_all();
  }

  /// Waits until over(). If this rank waits too long for others, it ends the attempt: those that
  /// wait for somebody else then arrive for the next quorum, and whoever does not is given up.
  template <class Over>
  void wait(std::unique_lock<std::mutex>& lock, Rank& rank, Waits why, const Over& over) {
    const std::chrono::duration<double> slice{std::min(0.05, patience_ / 4)};
    double waited = 0;
    while (!changed_.wait_for(lock, slice, [&] { return over() || !failure_.empty(); })) {
      rank.transport->check();
      if (why == Waits::for_its_step) continue;
      waited += slice.count();
      for (const int other : missing(why))
        if (const auto busy = busy_.find(other);
            busy != busy_.end() && busy->second.busy_within(patience_ / 2))
          waited = 0;
      if (waited < patience_) continue;
      if (why == Waits::for_votes) {
        break_connections(fmt::format("rank {} has waited {:g} s for a vote", rank.id, patience_));
        continue;
      }
      for (const int other : missing(why)) lose(other, "stalled");
      const int step = arrived_.contains(rank.id) ? arrived_[rank.id].step : step_;
      for (int other = 0; other < ranks_; ++other)
        if (faults_.returns_for(other, step) && !arrived_.contains(other))
          late_.insert({other, step});
      decide();
    }
    if (!failure_.empty() && !over()) throw RunError(failure_);
  }
  /// Returns the members that have not arrived or voted.
  std::vector<int> missing(Waits why) const {
    std::vector<int> ranks;
    for (const int rank : alive_)
      if (why == Waits::for_votes ? !votes_.contains(rank) : !arrived_.contains(rank))
        ranks.push_back(rank);
    return ranks;
  }

  RunError given_up(const Rank& rank) const {
    return RunError(fmt::format(
        "rank {} has neither computed nor arrived for {:g} s, so the others have gone on without "
        "it; give it more time with --timeout",
        rank.id, patience_));
  }

  void throw_later(const std::string& why) {
    if (failure_.empty()) failure_ = why;
    changed_.notify_all();
  }

  static std::string list_of(const std::vector<int>& ranks) {
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
  }

  Faults faults_;
  double patience_;
  int ranks_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> alive_;                 ///< ranks that have not died
  std::set<int> current_;               ///< ranks that have the state of the last step that counts
  std::map<int, Arrival> arrived_;      ///< ranks that wait for a quorum
  std::set<std::pair<int, int>> late_;  ///< ranks that did not return for a step
  std::map<int, BusyRank> busy_;
  std::map<int, int> last_quorum_;  ///< its number, by rank
  Quorum quorum_;
  int step_ = 0;
  int done_ = -1;  ///< the last step that counts
  Picoseconds latest_ = 0;
  std::map<int, Picoseconds> ended_;  ///< by step that counts
  std::map<int, std::uint32_t> votes_;
  int ballots_ = 0;
  Vote outcome_ = Vote::commit;
  int void_attempts_ = 0, corrupt_attempts_ = 0;          ///< in a row
  std::vector<std::unique_ptr<MemberNetwork>> networks_;  ///< by quorum; Transports refer to them
  std::vector<Event> events_;
  std::string failure_;
};

}  // namespace lockstep
