#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "exercises/frame/world.h"

/// What an exercise's check.cpp is written with. It defines check() and `learned`; the answer, in a
/// file of its own, defines the functions that the exercise's task.h declares.
namespace lockstep::exercises {

/// The answer still calls not_written().
struct NotWritten : std::exception {};

/// The answer is wrong: `what` says in which case, what is right and what came out; `why` is the
/// diagnosis in the words of the subject.
struct Wrong : std::runtime_error {
  Wrong(std::string what, std::string why_)
      : std::runtime_error(std::move(what)), why(std::move(why_)) {}
  std::string why;
};

/// Why a run on several ranks has ended early.
struct Failure {
  std::string text;
  int sends = 0;     ///< ranks that wait for another to receive their message
  int receives = 0;  ///< ranks that wait for another to send them one
  bool deadlock = false;
  bool waits_for_finished = false;  ///< a rank waits for one that has already returned
};

/// What a run on several ranks has cost.
struct Costs {
  std::vector<std::int64_t> bytes_sent;  ///< by rank
  double microseconds = 0;               ///< on the modelled clock, until the last rank ended
};

/// One check of an answer. A check tries small cases first and throws at the first wrong one, so
/// that the learner sees the smallest.
class Check {
 public:
  explicit Check(std::uint64_t seed) : random_(seed) {}

  /// Random inputs, different in each check of an answer; whole numbers, so that sums are exact in
  /// any order.
  float number() { return static_cast<float>(number_from(-9999, 9999)); }
  std::vector<float> numbers(std::size_t count);
  /// Positive numbers, each larger than all before it together, so that a sum tells which of them
  /// it contains. At most 12.
  std::vector<float> separable(std::size_t count);
  int number_from(int least, int most) {
    return std::uniform_int_distribution{least, most}(random_);
  }

  /// Runs `body` on each of `ranks` ranks. `what` describes the case: "3 ranks, 5 elements". Throws
  /// NotWritten if the answer is not written, and Wrong if the run fails, for example with a
  /// deadlock; `diagnosis` then explains it.
  Costs run(const std::string& what, int ranks, const std::function<void(World&)>& body,
            const std::function<std::string(const Failure&)>& diagnosis);

  /// run() counts its own cases; a check without runs counts them here.
  void count_case() { ++cases_; }
  int cases() const { return cases_; }

 private:
  std::mt19937_64 random_;
  int cases_ = 0;
};

/// Returns "1, 2, 3", or the first few numbers and "..." if there are many.
std::string list(std::span<const float> numbers);

/// Defined by each exercise.
void check(Check& check);
extern const char* const learned;  ///< one sentence on what the learner now knows

}  // namespace lockstep::exercises
