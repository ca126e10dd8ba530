#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/plan/prediction.h"

namespace lockstep {

// The failures that a run is asked to survive: --faults 2@10-20 means that rank 2 dies in step 10
// and returns for step 20.

/// How a rank fails.
enum class Death {
  none,     ///< as planned: the other ranks know beforehand, and the rank is absent from step 10 on
  thrown,   ///< an exception ends it, and with it everything that it knows
  stalled,  ///< it stops, and says nothing
  killed,   ///< SIGKILL, under MPI
};

/// Where in the step it fails.
enum class DeathPoint {
  start,     ///< before it computes
  backward,  ///< in its backward pass, with gradients in flight
  sum,       ///< once it has the sum of all gradients
  update,  ///< after the vote, before its own update: the step counts, and it is absent afterwards
};

struct Fault {
  int rank = 0;
  int step = 0;
  std::optional<int> returns{};  ///< the step for which it returns
};

/// Thrown where a rank dies. Nothing but the lesson's main loop catches it.
struct Died : std::exception {
  const char* what() const noexcept override { return "this rank has died"; }
};

/// All failures of a run. A rank is absent from the step in which it dies until it returns.
class Faults {
 public:
  Faults() = default;
  /// Throws UsageError unless `text` is a list of RANK@STEP and RANK@STEP-RETURN.
  Faults(const std::string& text, Death death, DeathPoint point) : death_(death), point_(point) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      faults_.push_back(parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  /// Adds that a bit of a rank's parameters flips before a step. `text` is RANK@STEP, or "".
  void flip(const std::string& text) {
    if (text.empty()) return;
    flip_ = parse(text, "--flip");
    if (flip_->returns)
      throw UsageError(fmt::format("--flip {}: write RANK@STEP, such as 1@7", text));
  }
  /// Whether a bit of the rank's parameters flips before this step.
  bool flips(int rank, int step) const {
    return flip_ && flip_->rank == rank && flip_->step == step;
  }

  /// How, where in the step, and in which steps ranks fail.
  Death death() const { return death_; }
  DeathPoint point() const { return point_; }
  const std::vector<Fault>& all() const { return faults_; }

  /// Whether the rank's gradients are part of the step's update.
  bool takes_part(int rank, int step) const {
    return std::ranges::none_of(faults_, [&](const Fault& fault) {
      return fault.rank == rank && first_absent(fault) <= step &&
             step < fault.returns.value_or(step + 1);
    });
  }
  /// Returns the ranks, of `ranks`, that take part in the step.
  std::vector<int> members(int ranks, int step) const {
    std::vector<int> members;
    for (int rank = 0; rank < ranks; ++rank)
      if (takes_part(rank, step)) members.push_back(rank);
    return members;
  }
  /// Whether the rank returns for this step.
  bool returns_for(int rank, int step) const {
    return std::ranges::any_of(
        faults_, [&](const Fault& fault) { return fault.rank == rank && fault.returns == step; });
  }
  /// Whether the rank fails in this step.
  bool strikes(int rank, int step) const {
    return death_ != Death::none && std::ranges::any_of(faults_, [&](const Fault& fault) {
             return fault.rank == rank && fault.step == step;
           });
  }
  /// Whether the rank fails at this point of this step.
  bool strikes(int rank, int step, DeathPoint point) const {
    return point == point_ && strikes(rank, step);
  }

  /// Throws UsageError if a rank does not exist, dies while it is dead, or returns outside the run,
  /// or if nobody is left in some step.
  void check(int ranks, int steps) const;
  /// Divides the run's steps into phases: steps with the same members, and on its own each step in
  /// which members die or return.
  std::vector<Phase> phases(int ranks, int steps, int microbatches, const char* members) const;
  /// Whether members die, leave or return in this step.
  bool changes(int step) const {
    return std::ranges::any_of(faults_, [&](const Fault& fault) {
      return fault.step == step || first_absent(fault) == step || fault.returns == step;
    });
  }
  /// Whether an attempt at this step fails because a member dies, or its state is corrupt.
  bool attempt_fails(int step) const {
    return (flip_ && flip_->step == step) ||
           (death_ != Death::none && point_ != DeathPoint::update &&
            std::ranges::count(faults_, step, &Fault::step) > 0);
  }

 private:
  static Fault parse(const std::string& text, const char* flag = "--faults") {
    const auto number = [&](std::string_view digits) {
      const int value = number_from<int>(digits).value_or(-1);
      if (value < 0)
        throw UsageError(
            fmt::format("{} {}: not a failure; write RANK@STEP, such as 2@10, or for a rank that "
                        "returns RANK@STEP-RETURN, such as 2@10-20",
                        flag, text));
      return value;
    };
    const std::string_view all = text;
    const std::size_t at = std::min(all.find('@'), all.size());
    const std::size_t dash = std::min(all.find('-', at), all.size());
    Fault fault{.rank = number(all.substr(0, at)),
                .step = number(all.substr(std::min(at + 1, all.size()), dash - at - (at < dash)))};
    if (dash < all.size()) fault.returns = number(all.substr(dash + 1));
    return fault;
  }
  int first_absent(const Fault& fault) const {
    return fault.step + (death_ != Death::none && point_ == DeathPoint::update ? 1 : 0);
  }
  std::string event(int step) const;

  std::vector<Fault> faults_;
  std::optional<Fault> flip_;
  Death death_ = Death::none;
  DeathPoint point_ = DeathPoint::backward;
};

inline void Faults::check(int ranks, int steps) const {
  const auto wrong = [](const Fault& fault, const std::string& why) {
    return UsageError(
        fmt::format("--faults {}@{}{}: {}", fault.rank, fault.step,
                    fault.returns ? fmt::format("-{}", *fault.returns) : std::string{}, why));
  };
  if (flip_ &&
      (flip_->rank >= ranks || flip_->step >= steps || !takes_part(flip_->rank, flip_->step)))
    throw UsageError(
        fmt::format("--flip {}@{}: this rank takes no part in this step; the run has {} "
                    "ranks and {} steps",
                    flip_->rank, flip_->step, ranks, steps));
  for (const Fault& fault : faults_) {
    if (fault.rank >= ranks)
      throw wrong(fault,
                  fmt::format("there are {} ranks; give one from 0 to {}", ranks, ranks - 1));
    if (fault.step >= steps)
      throw wrong(fault,
                  fmt::format("the run has {} steps; give one from 0 to {}", steps, steps - 1));
    if (first_absent(fault) == steps)
      throw wrong(fault, fmt::format("nothing comes after step {}, so nobody would notice; give an "
                                     "earlier step",
                                     fault.step));
    if (fault.returns && (*fault.returns <= first_absent(fault) || *fault.returns >= steps))
      throw wrong(fault,
                  fmt::format("a rank that is absent from step {} on can return for steps {} to {}",
                              first_absent(fault), first_absent(fault) + 1, steps - 1));
    for (const Fault& other : faults_)
      if (&other < &fault && other.rank == fault.rank &&
          fault.step <= other.returns.value_or(steps) &&
          other.step <= fault.returns.value_or(steps))
        throw wrong(
            fault, fmt::format("rank {} is not there to die: it dies in step {} and {}", fault.rank,
                               other.step,
                               other.returns ? fmt::format("returns for step {}", *other.returns)
                                             : std::string{"does not return"}));
  }
  for (int step = 0; step < steps; ++step)
    if (members(ranks, step).empty())
      throw UsageError(
          fmt::format("--faults: no rank is left in step {}; leave at least one", step));
}

/// "rank 2 dies", "ranks 0 and 1 return", or nothing.
inline std::string Faults::event(int step) const {
  std::vector<int> dead, back;
  bool gone = false;
  for (const Fault& fault : faults_) {
    if (fault.step == step) dead.push_back(fault.rank);
    gone = gone || (fault.step < step && first_absent(fault) == step);
    if (fault.returns == step) back.push_back(fault.rank);
  }
  const auto words = [](const std::vector<int>& ranks, const char* one, const char* many) {
    return fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "),
                       ranks.size() == 1 ? one : many);
  };
  std::string text;
  if (flip_ && flip_->step == step) text = fmt::format("a bit of rank {} flips", flip_->rank);
  if (!text.empty() && dead.size() + back.size() > 0) text += ", ";
  if (!dead.empty())
    text += death_ == Death::none ? words(dead, "leaves", "leave") : words(dead, "dies", "die");
  if (!back.empty()) text += (dead.empty() ? "" : ", ") + words(back, "returns", "return");
  if (gone && text.empty()) text = "the others go on";
  return text;
}

inline std::vector<Phase> Faults::phases(int ranks, int steps, int microbatches,
                                         const char* members_word) const {
  std::vector<Phase> phases;
  bool alone = true;  // the last phase takes no further step
  for (int step = 0; step < steps; ++step) {
    std::vector<int> present = members(ranks, step);
    const std::string what = event(step);
    if (!what.empty() || alone) {
      const std::string name =
          what.empty() ? fmt::format("{} {}", present.size(), members_word) : what;
      if (static_cast<int>(present.size()) == ranks) present.clear();  // all
      phases.push_back({name, step, 0, microbatches, std::move(present)});
    }
    alone = !what.empty();
    ++phases.back().steps;
  }
  return phases;
}

}  // namespace lockstep
