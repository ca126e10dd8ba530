#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/span.h"
#include "core/operations/run_operations.h"

namespace lockstep {

/// Collects the operations of the ranks of one process. Thread-safe.
class OperationBook {
 public:
  /// `ranks` is the number of ranks of the whole run.
  explicit OperationBook(int ranks) { run_.ranks.resize(static_cast<std::size_t>(ranks)); }

  /// Adds a group that `rank` has created.
  void add_group(int rank, RunOperations::GroupMembers group);
  /// Returns the index of an operation in RunOperations::operations.
  std::uint32_t index_of(const RecordedOperation& operation);
  /// Adds a rank's next section, a list of such indices.
  void add_section(int rank, int step, std::vector<std::uint32_t> list);
  /// Adds everything that another process has recorded.
  void add(const RunOperations& other);
  /// Moves everything recorded so far out of the book.
  RunOperations take() { return std::move(run_); }

 private:
  /// Returns a copy of the name that lives as long as the operations.
  const char* keep(const char* name);

  std::mutex mutex_;
  RunOperations run_;
  std::unordered_multimap<std::size_t, std::uint32_t> operations_;  ///< by hash
  std::unordered_multimap<std::size_t, std::uint32_t> lists_;       ///< by hash
  std::unordered_map<const char*, const char*> kept_;               ///< by the address of a name
  std::map<RunOperations::GroupMembers, std::uint32_t> groups_;
};

/// Records the operations of one rank. Belongs to the rank's own thread. Steps and microbatches
/// repeat, so an operation usually follows the same one as the last time; recording it then takes
/// one comparison, and otherwise a lookup in a hash table.
class OperationLog {
 public:
  /// Identifies a message or collective that the rank has issued.
  using Issued = std::int64_t;
  static constexpr Issued not_recorded = -1;

  OperationLog(OperationBook& book, int rank) : book_(book), rank_(rank) {}

  void kernel(const Span& span, const Cost& cost);
  void begin(const Span& span);
  void end(Category category);
  void together();

  /// Numbers a communication stream.
  int open_stream() { return streams_++; }
  /// The properties that all messages of a Channel share.
  struct Route {
    int stream = 0;   ///< from open_stream()
    int channel = 0;  ///< Transport's number
    const char* axis = "";
  };
  /// `peer` is a rank of the run; the span gives the stage and the microbatch.
  Issued message(RecordedOperation::Kind direction, const Route& route, int peer,
                 std::int64_t bytes, const Span& span);
  /// Returns the group's number, for collective().
  int open_group(RunOperations::GroupMembers group);
  Issued collective(int group, Collective collective);
  void wait(Issued issued);

  /// Ends the current section, unless it is empty.
  void end_section(int step);

 private:
  void add(const RecordedOperation& operation);
  void append(std::uint32_t entry);
  std::uint32_t find(const RecordedOperation& operation);

  /// All that recording a kernel compares lies within two cache lines.
  struct alignas(64) Entry {
    std::uint32_t next;  ///< the operation that followed it the last time
    std::uint32_t in_book;
    RecordedOperation operation;
  };
  const Entry* expected() const {
    return entries_.empty() ? nullptr : &entries_[entries_[last_].next];
  }

  OperationBook& book_;
  const int rank_;
  int streams_ = 0;
  int groups_ = 0;
  Issued issued_ = 0;
  std::vector<std::pair<Category, int>> ranges_;  ///< open ones, outermost first; with their stages
  std::vector<Entry> entries_;
  std::unordered_multimap<std::size_t, std::uint32_t> index_;  ///< of entries_, by hash
  std::uint32_t last_ = 0;
  std::vector<std::uint32_t> section_;  ///< indices of entries_
};

}  // namespace lockstep
