#pragma once

#include <list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace lockstep {
class Group;
}

namespace lockstep::exercises {

struct Wrong;

/// Numbers in host memory that an operation reads, and numbers into which it writes. Either may be
/// empty, and they may be the same.
struct HostNumbers {
  std::span<const float> read;
  std::span<float> written;
};

/// An operation that the answer has asked for: "send", at the line `where`.
struct Asked {
  const char* operation;
  std::source_location where;
  /// Set if operations of the same group run one after another, as collectives do.
  const Group* in_order_of = nullptr;

  /// "send() at line 9"
  std::string text() const;
};

/// The numbers of one rank's operations that have been started and not waited for. An operation
/// works on a copy of its numbers. Until wait() returns, the memory that it writes is filled with
/// **marks**: NaNs that name the operation. So numbers that a rank reads before they have arrived
/// are never right, whatever the timing, and a result that is computed with a mark is itself a
/// mark.
class InFlight {
 public:
  explicit InFlight(int rank) : rank_(rank) {}

  struct Operation {
    Asked asked;
    HostNumbers numbers;
    std::shared_ptr<float[]> copy;
    /// The copy on which the operation works, in place of `numbers`.
    HostNumbers copies() const;
    /// Parts of `numbers.written` that a later operation in flight has taken over.
    std::vector<std::span<const float>> taken_over{};
    bool is_taken_over(const float& number) const;
    bool was_freed = false;  ///< whether the memory at `numbers` has been freed

    /// Returns whether the operation reads and writes the same numbers.
    bool is_in_place() const {
      return numbers.read.data() == numbers.written.data() &&
             numbers.read.size() == numbers.written.size();
    }
  };
  using Handle = std::list<Operation>::iterator;

  /// Starts an operation: copies its numbers, and marks what it writes. The operation must work on
  /// the copy. Throws Wrong if an operation in flight writes what this one reads or writes, or
  /// reads what this one writes. But a collective may work on what an earlier one of the same group
  /// writes, because they run one after another.
  Handle start(const Asked& asked, const HostNumbers& numbers);
  /// Ends an operation that has been waited for: copies the numbers that it has written. Throws
  /// Wrong if the answer has changed its numbers meanwhile.
  void finish(Handle operation);
  /// Ends an operation that has been abandoned.
  void give_up(Handle operation) { operations_.erase(operation); }
  /// Records that memory has been freed: if an operation uses it, `misuse` reports that.
  void free(std::span<const float> memory);

  /// The oldest operation in flight whose numbers overlap with these; null if there is none.
  const Operation* using_some_of(std::span<const float> numbers) const;
  /// The oldest operation in flight that writes any of these numbers; null if there is none.
  const Operation* writing_some_of(std::span<const float> numbers) const;
  /// The oldest operation in flight; null if there is none.
  const Operation* oldest() const { return operations_.empty() ? nullptr : &operations_.front(); }

  /// Misuse of numbers in flight that could not be reported at the place where the answer did it.
  std::unique_ptr<Wrong> misuse;

 private:
  bool is_marked(const Operation& operation) const;

  const int rank_;
  std::list<Operation> operations_;  ///< in the order in which they were started
};

/// If the number is a mark, or was computed with one, returns the operation that has left it there:
/// "all_reduce() at line 9 of rank 1".
std::optional<std::string> operation_that_marked(float number);

}  // namespace lockstep::exercises
