#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "exercises/frame/picture.h"
#include "exercises/frame/world.h"

/// What an exercise's check.cpp is written with. It defines check() and `learned`; the answer, in a
/// file of its own, defines the functions that the exercise's task.h declares.
namespace lockstep::exercises {

class Ranks;
class Reporter;

/// The answer still calls not_written().
struct NotWritten : std::exception {};

/// The answer is wrong: `what` says in which case, what is right and what came out; `why` is the
/// diagnosis in the words of the subject.
struct Wrong : std::runtime_error {
  Wrong(std::string what, std::string why_)
      : std::runtime_error(std::move(what)), why(std::move(why_)) {}
  std::string why;
};

/// Why a run on several ranks has ended early. For any other reason, all members are 0.
struct Failure {
  bool deadlock = false;  ///< ranks wait for one another
  int sends = 0;          ///< in a deadlock: ranks that wait for another to receive their message
  int receives = 0;       ///< in a deadlock: ranks that wait for another to send them one
  bool waits_for_finished = false;  ///< a rank waits for one that has already returned
};

/// What a run on several ranks has left.
struct Outcome {
  std::vector<std::vector<float>> results;  ///< by rank: what the body returned
  std::vector<std::int64_t> bytes_sent;     ///< by rank
  std::vector<std::int64_t> messages_sent;  ///< by rank: also those of collectives, and empty ones
  std::vector<std::int64_t> peak_bytes;     ///< by rank: the most that Buffers held at a time
  double microseconds = 0;                  ///< on the modelled clock, until the last rank ended
  /// What each rank computed, and to whom it sent when: rows "rank 0", and "rank 0 to", whose
  /// digits are the receivers. A rank that did not compute, or did not send, has no such row.
  std::vector<Row> rows;
};

/// One check of an answer. A check tries small cases first and throws at the first wrong one, so
/// that the learner sees the smallest. With `--launch mpi`, every process runs the whole check,
/// with the same random numbers; only a body runs on its own rank alone, so what the check needs of
/// it is what it returns.
class Check {
 public:
  /// `ranks`, where bodies run, and `reporter`, which learns the case of each run, must outlive
  /// the check.
  Check(Ranks& ranks, Reporter& reporter, std::uint64_t seed)
      : ranks_(ranks), reporter_(reporter), random_(seed) {}

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

  /// What a rank does; returns the numbers that the check looks at afterwards. Reads nothing that
  /// another rank's body writes.
  using Body = std::function<std::vector<float>(World&)>;
  using Diagnosis = std::function<std::string(const Failure&)>;

  /// Runs `body` on each rank, at most 8 of them. `what` describes the case: "3 ranks, 5 elements".
  /// Throws NotWritten if the answer is not written, and Wrong if the run fails, for example with a
  /// deadlock; `diagnosis` then explains it.
  Outcome run(const std::string& what, const Mesh& mesh, const Body& body,
              const Diagnosis& diagnosis);
  /// All ranks along one axis.
  Outcome run(const std::string& what, int ranks, const Body& body, const Diagnosis& diagnosis) {
    return run(what, Mesh{ranks, {1, 1, ranks, 1}}, body, diagnosis);
  }

  /// run() counts its own cases; a check without runs counts them here, before each. `what`
  /// describes the case.
  void count_case(const std::string& what = "");
  int cases() const { return cases_; }
  const std::string& current_case() const { return current_case_; }
  /// If the last run's results were computed with numbers that had not arrived, names the operation
  /// that should have been waited for: "all_reduce() at line 9 of rank 1". Results that do not
  /// matter may contain such numbers.
  const std::string& used_early() const { return used_early_; }

  /// Shows `picture` after the answer has turned out right, below `caption`, which says what to see
  /// there.
  void show(std::string caption, Picture picture) {
    caption_ = std::move(caption);
    picture_ = std::move(picture);
  }
  const std::string& caption() const { return caption_; }
  const Picture& picture() const { return picture_; }

 private:
  Ranks& ranks_;
  Reporter& reporter_;
  std::mt19937_64 random_;
  int cases_ = 0;
  std::string current_case_, used_early_;
  std::string caption_;
  Picture picture_;
};

/// The diagnosis of numbers that were used before they had arrived.
extern const char* const why_early;

/// To be called by what an answer calls, such as `forward`. Throws Wrong if some of the numbers
/// that it is given have not arrived, or were computed with such numbers. `user` is "forward()".
void expect_arrived(const std::string& user, std::span<const float> numbers);
/// Likewise, for numbers that it writes: throws Wrong if an operation in flight uses them.
void expect_free(World& world, const std::string& user, std::span<const float> numbers);

/// Throws Wrong if a rank has sent to another one than its neighbours in the ring of all ranks.
void check_ring(const std::string& what, const Outcome& outcome);

/// Returns "1, 2, 3", or the first few numbers and "..." if there are many.
std::string list(std::span<const float> numbers);

/// Returns "3 ranks" or "1 rank"; the plural of `one` is `one` + "s", unless `many` is given.
inline std::string count_of(std::int64_t n, const std::string& one, const std::string& many = "") {
  return std::to_string(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}

/// Defined by each exercise.
void check(Check& check);
extern const char* const learned;  ///< one sentence on what the learner now knows

}  // namespace lockstep::exercises
