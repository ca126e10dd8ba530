#pragma once

#include <nccl.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/emulator/machine.h"

namespace emulator {

enum class Kind { send_receive, broadcast, all_reduce, reduce_scatter, all_gather, reduce };

/// One member's part in an operation: a send, a receive, or its share of a collective.
struct Part {
  Kind kind = Kind::send_receive;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int root = 0;
  int rank = 0;
  int peer = -1;       ///< the other rank of a send or a receive; -1: a collective
  bool sends = false;  ///< whether the part is a send
  bool done = false;
};

class Clique;

/// One rank's view of a communicator. All fields except the constants are used under the machine's
/// lock.
struct Member {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  int device = 0;
  bool aborted = false;
  bool blocking = true;
  /// The call in progress on a non-blocking communicator: returns ncclInProgress or, once the call
  /// is done, its result. Null if there is none.
  std::function<ncclResult_t(Machine::Lock&)> in_progress;
  ncclResult_t result = ncclSuccess;  ///< of the last call that was in progress
  int calls = 0;                      ///< number of calls so far that may be in progress
  int queries = 0;                    ///< minimum number of queries that the call in progress takes
  std::map<int, std::uint64_t> sends;     ///< number of sends to each peer so far
  std::map<int, std::uint64_t> receives;  ///< number of receives from each peer so far
  std::uint64_t collectives = 0;
  std::int64_t operations = 0;
  std::int64_t fails_after = -1;          ///< after this many operations; -1: never
  std::deque<class GroupMeeting*> order;  ///< issued but unfinished; only the first may begin
};

/// The state that all ranks of a communicator share.
class Clique {
 public:
  explicit Clique(int size_) : size(size_) {}

  /// For a message: the sender, the receiver, 1 and the sequence number. For a collective: -1, -1,
  /// 0 and the sequence number.
  using Key = std::tuple<int, int, int, std::uint64_t>;

  /// For each operation, the parts that have begun (together with the rest of their groups).
  std::map<Key, std::vector<std::shared_ptr<Part>>> begun;
  const int size;
  std::map<int, int> gpus;  ///< by rank, filled as ranks arrive
  /// For each connection (from one rank to another, or (-1, -1) for collectives), the ranks that
  /// have arrived to make the connection.
  std::map<std::pair<int, int>, std::set<int>> connecting;

  /// Whether all members have begun the operation with matching arguments.
  bool complete(const Key& key) const;
  /// Performs the operation for all members.
  void perform(const Key& key) const;
  /// Removes a rank from all operations.
  void forget(int rank);
};

/// The operations that one rank issued on one communicator between ncclGroupStart and ncclGroupEnd,
/// or a single operation.
class GroupMeeting final : public Meeting {
 public:
  GroupMeeting(std::shared_ptr<Member> member, std::vector<std::shared_ptr<Part>> parts);
  ~GroupMeeting() override;

  void arrive() override;
  bool can_step() const override;
  void step() override;
  bool done() const override;
  std::string waits_for() const override;

 private:
  std::shared_ptr<Member> member_;
  std::vector<std::pair<Clique::Key, std::shared_ptr<Part>>> parts_;
  bool begun_ = false;
};

std::size_t size_of(ncclDataType_t type);

/// Returns the member that a communicator's handle refers to, or null if a call is in progress on
/// the communicator. Ends the process if the handle is not in use.
std::shared_ptr<Member> ready_member_of(ncclComm_t communicator);
/// Does the same, whether or not a call is in progress.
std::shared_ptr<Member> member_of(ncclComm_t communicator);
/// Makes a call on a communicator: once `ready` returns true, `finish` performs the call and
/// returns its result. Inside a blocking communicator's call, the host waits until then. A call on
/// a non-blocking communicator may return ncclInProgress, sometimes even if it is ready, and each
/// query of the communicator's state then tries again.
ncclResult_t make_call(Machine::Lock& lock, const std::shared_ptr<Member>& member,
                       std::function<bool()> ready,
                       std::function<ncclResult_t(Machine::Lock&)> finish);
/// Returns `result` and makes ncclGetLastError return `why` to the calling thread.
ncclResult_t refused(ncclResult_t result, const std::string& why);

}  // namespace emulator
