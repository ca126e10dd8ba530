#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "exercises/frame/picture.h"
#include "exercises/frame/world.h"

/// The interface for an exercise's check.cpp, which defines check() and `learned`. The answer, in a
/// file of its own, defines the functions that the exercise's task.h declares.
namespace lockstep::exercises {

class Ranks;
class Reporter;

/// The answer still calls not_written().
struct NotWritten : std::exception {};

/// The answer is wrong: `what` gives the case, the right result and the answer's result; `why` is
/// the diagnosis in the terms of the subject.
struct Wrong : std::runtime_error {
  Wrong(std::string what, std::string why_)
      : std::runtime_error(std::move(what)), why(std::move(why_)) {}
  std::string why;
};

/// The reason why a run on several ranks ended early. If it is none of these, all members are 0.
struct Failure {
  bool deadlock = false;  ///< ranks wait for one another
  int sends = 0;          ///< in a deadlock: ranks that wait for another to receive their message
  int receives = 0;       ///< in a deadlock: ranks that wait for another to send them one
  bool waits_for_finished = false;  ///< a rank waits for one that has already returned
};

/// A message or a collective that a rank has asked for.
struct Started {
  std::string operation;  ///< "send", "receive", "all_reduce"
  std::string where;      ///< "send() at line 9"
  /// The numbers that this rank sends or receives, or on which it works in place. An all_to_all has
  /// the larger of its two counts.
  std::size_t numbers = 0;
};

/// The results of a run on several ranks.
struct Outcome {
  std::vector<std::vector<float>> results;    ///< by rank: what the body returned
  std::vector<std::int64_t> bytes_sent;       ///< by rank
  std::vector<std::int64_t> messages_sent;    ///< by rank: includes collectives' and empty messages
  std::vector<std::vector<Started>> started;  ///< by rank, in order
  std::vector<std::int64_t> peak_bytes;       ///< by rank: the most that Buffers held at a time
  std::vector<std::vector<std::size_t>> peak_sizes;  ///< by rank: of the Buffers at that time
  std::vector<std::int64_t> own_bytes;  ///< by rank: as counted by OwnMemory (own_memory.h)
  /// By rank: the largest count of numbers that a collective has written to memory outside all
  /// Buffers.
  std::vector<std::size_t> uncounted;
  double microseconds = 0;  ///< on the modelled clock, until the last rank ended
  /// Each rank's computations (row "rank 0") and messages (row "rank 0 to", whose digits are the
  /// receivers). A rank that did not compute, or did not send, has no such row.
  std::vector<Row> rows;

  std::int64_t all_bytes_sent() const {
    return std::accumulate(bytes_sent.begin(), bytes_sent.end(), std::int64_t{0});
  }
};

/// One check of an answer. A check tries small cases first and throws at the first wrong one, so
/// that the learner sees the smallest. With `--launch mpi`, every process runs the whole check,
/// with the same random numbers; only a body runs on its own rank alone, so it must return
/// everything that the check needs.
class Check {
 public:
  /// `ranks`, where bodies run, and `reporter`, which learns the case of each run, must outlive
  /// the check.
  Check(Ranks& ranks, Reporter& reporter, std::uint64_t seed)
      : ranks_(ranks), reporter_(reporter), random_(seed) {}

  /// Random inputs, different in each check of an answer. They are integers, so that sums are exact
  /// in any order.
  float number() { return static_cast<float>(number_from(-9999, 9999)); }
  std::vector<float> numbers(std::size_t count);
  /// Positive numbers, each larger than the sum of all before it, so that a sum shows which of them
  /// it contains. `count` is at most 12.
  std::vector<float> separable(std::size_t count);
  int number_from(int least, int most) {
    return std::uniform_int_distribution{least, most}(random_);
  }

  /// The function that each rank runs. It returns the numbers that the check examines afterwards,
  /// and reads nothing that another rank's body writes.
  using Body = std::function<std::vector<float>(World&)>;
  using Diagnosis = std::function<std::string(const Failure&)>;

  /// Runs `body` on each rank, at most `most_ranks` of them (report.h). `what` describes the case:
  /// "3 ranks, 5 elements". Throws NotWritten if the answer is not written, and Wrong if the run
  /// fails, for example with a deadlock; `diagnosis` then explains it.
  Outcome run(const std::string& what, const Mesh& mesh, const Body& body,
              const Diagnosis& diagnosis);
  /// All ranks along one axis.
  Outcome run(const std::string& what, int ranks, const Body& body, const Diagnosis& diagnosis) {
    return run(what, Mesh{ranks, {1, 1, ranks, 1}}, body, diagnosis);
  }

  /// run() counts its own cases; a check without runs calls this before each case. `what` describes
  /// the case.
  void count_case(const std::string& what = "");
  int cases() const { return cases_; }
  const std::string& current_case() const { return current_case_; }
  /// If the last run's results were computed with numbers that had not arrived, names the operation
  /// that should have been waited for: "all_reduce() at line 9 of rank 1". Results that do not
  /// matter may contain such numbers.
  const std::string& used_early() const { return used_early_; }
  /// Call this once the results of the last run are right, if some numbers in them do not matter:
  /// errors that the check finds after that have a cause other than the numbers of used_early().
  void results_are_right() { used_early_.clear(); }

  /// If the answer is right, shows `picture` below `caption`, which explains the picture.
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

/// The diagnosis of a run that fails in an answer which calls collectives.
std::string diagnose_collectives(const Failure& failure);
/// The diagnosis of numbers that were used before they had arrived.
extern const char* const why_early;

/// Checks the input of a function that an answer calls, such as `forward`: throws Wrong if some of
/// the numbers that the function reads have not arrived, or were computed with such numbers. `user`
/// is "forward()".
void expect_arrived(const std::string& user, std::span<const float> numbers);
/// Checks the numbers that the function writes: throws Wrong if an operation in flight uses them.
void expect_free(World& world, const std::string& user, std::span<const float> numbers);
/// Returns whether the numbers are in a Buffer of this rank, whose memory is counted.
bool is_in_buffer(World& world, std::span<const float> numbers);
/// Throws Wrong if a collective has written to memory that is not counted.
void expect_counted(const std::string& what, const Outcome& outcome);
/// Throws Wrong if a rank has sent a message, or called a collective, that has no numbers.
void expect_nothing_empty(const std::string& what, const Outcome& outcome);
/// Returns whether an operation of this rank is in flight.
bool is_in_flight(World& world);

/// Returns "8, 4 and 4 numbers": the rank's Buffers when they held the most.
std::string buffers_at_peak(const Outcome& outcome, int rank);

/// Throws Wrong if a rank has sent to a rank other than its neighbours in the ring of all ranks.
void check_ring(const std::string& what, const Outcome& outcome);

/// Throws Wrong if a rank has sent to both of its neighbours.
void check_one_direction(const std::string& what, const Outcome& outcome);

/// Returns "1, 2, 3", or the first few numbers and "..." if there are many.
std::string list(std::span<const float> numbers);

/// The index of rank `i` in lists by rank.
inline std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

/// Returns "3 ranks" or "1 rank"; the plural of `one` is `one` + "s", unless `many` is given.
inline std::string count_of(std::int64_t n, const std::string& one, const std::string& many = "") {
  return std::to_string(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
}

/// Defined by each exercise.
void check(Check& check);
extern const char* const learned;  ///< one sentence on what the learner now knows

}  // namespace lockstep::exercises
