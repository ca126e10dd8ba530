#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/comm/algorithms.h"
#include "core/comm/channel_peers.h"
#include "core/comm/meta/meta_collectives.h"
#include "core/comm/transport/native.h"
#include "core/comm/worker.h"

namespace lockstep {

/// An ordered set of ranks and its operations. All operations work in place on contiguous views of
/// f32, bf16 or f16. Operations throw std::invalid_argument for other views, and for member numbers
/// out of range. 16-bit sums are computed in f32 and rounded at every step of the algorithm; MPI's
/// own collectives support only f32, and throw std::invalid_argument for other types. All members
/// call the same operations, with the same sizes, in the same order. Each operation returns a Work,
/// whose wait() keeps the compute stream from continuing before the operation has ended. A Group
/// must outlive its Works.
///
/// On the meta device a group sends no messages; see MetaCollectives.
///
/// Collectives run one after another on the group's own communication stream. Each collective
/// starts when the compute stream reaches the point of the call, and overlaps with compute until
/// wait(). Additions cost nothing on the modelled clock (there is no γ term). In a group of one
/// rank, every operation ends immediately and sends nothing. After a collective fails, or its Work
/// is dropped before it is done, the group runs no further collectives, and the wait() of each
/// later collective throws an error with the reason.
class Group {
 public:
  /// The number of channels that a group uses.
  static constexpr int channels_taken = 2;
  /// `ranks` are ranks of the whole run, and include this rank. `channels` is the first of
  /// `channels_taken` numbers from Transport::open_channels(). All members pass the same `ranks`,
  /// `name` and `channels`. With the backend's own collectives, the constructor is itself
  /// collective. Throws std::invalid_argument if this rank is not a member, or already belongs to
  /// an existing group with that name.
  Group(Endpoint endpoint, std::vector<int> ranks, std::string name, int channels);
  ~Group();

  /// This rank's index in the group, 0 .. size() - 1.
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// The i-th member's rank in the whole run.
  int world_rank(int i) const { return ranks_[static_cast<std::size_t>(i)]; }
  const std::string& name() const { return name_; }

  /// Sends to or receives from another member, by its index in the group, on a stream separate from
  /// the collectives' stream. Sends complete in the order in which they were issued, whatever their
  /// destinations. Receives also complete in order, whatever their sources.
  Work send(View data, int to, std::source_location where = std::source_location::current());
  Work receive(View into, int from, std::source_location where = std::source_location::current());

  /// Copies the root's elements to every member (binomial tree).
  Work broadcast(View data, int root, std::source_location where = std::source_location::current());
  /// Leaves the sum over all members on every member; the sums are bitwise identical.
  Work all_reduce(View data, Algorithm algorithm = Algorithm::ring,
                  std::source_location where = std::source_location::current());
  /// Divides `data` into size() chunks (see chunk()). On member i, chunk i of `data` becomes the
  /// sum over all members, and the other chunks are left with partial sums (ring).
  Work reduce_scatter(View data, std::source_location where = std::source_location::current());
  /// Member i contributes chunk i of `data`; afterwards, every member has all chunks (ring).
  Work all_gather(View data, std::source_location where = std::source_location::current());
  /// Member i contributes chunk i of `data`; afterwards, the root has all chunks (one message per
  /// member).
  Work gather(View data, int root, std::source_location where = std::source_location::current());
  /// Sends chunk i of `out` to member i and receives that member's chunk into chunk i of `in`
  /// (pairwise). Throws std::invalid_argument unless both views have the same number of elements.
  Work all_to_all(View out, View in, std::source_location where = std::source_location::current());
  /// All-to-all with contiguous chunks of any sizes, in elements. The count that member i sends to
  /// j must equal the count that j expects from i.
  Work all_to_all_v(View out, std::vector<std::int64_t> send_counts, View in,
                    std::vector<std::int64_t> receive_counts,
                    std::source_location where = std::source_location::current());
  /// Ends on each member only after all members have called it (dissemination: ⌈log₂ N⌉ rounds).
  Work barrier(std::source_location where = std::source_location::current());

  /// Returns chunk i of the size() chunks of `data`, which has n elements. The first n mod size()
  /// chunks have one extra element.
  View chunk(View data, int i) const { return chunk_of(data, i, size()); }

 private:
  /// A collective that has not been issued yet.
  struct Call {
    const char* name;
    const char* algorithm;
    std::int64_t whole;    ///< bytes of the whole collective; -1 if members may differ
    std::int64_t scratch;  ///< size of the scratch buffer, in elements
    std::source_location where;
    int root = -1;
    DType dtype = DType::f32;  ///< of the scratch buffer
  };
  class CollectiveTask;
  class MetaTask;

  /// Issues the collective on the group's stream. Runs `theirs` if the group uses the backend's own
  /// collectives, and `ours` otherwise.
  Work issue(const Call& call, std::function<void(Peers&)> ours,
             std::function<void(NativeCollectives&)> theirs);
  /// Issues a collective through a GPU library, which enqueues the collective immediately.
  Work enqueue_native(const Span& span, const Event& ready,
                      const std::function<void(NativeCollectives&)>& work);
  Event run_native(ChannelPeers& peers, const Span& span, NativeCollectives& backend,
                   const std::function<void(NativeCollectives&)>& work);
  std::vector<int> chunk_counts(View data) const;
  // Each of these functions validates an operation's argument and returns it, or throws
  // std::invalid_argument.
  View checked(const char* operation, View data) const;
  int member(const char* operation, int i) const;
  Channel::Part part(const char* name, std::source_location where) const;

  Endpoint endpoint_;
  std::vector<int> ranks_;
  std::string name_;
  const char* kept_name_;  ///< for spans, which outlive the group
  int rank_ = 0;
  std::int64_t issued_ = 0;  ///< number of collectives issued so far
  Channel messages_;
  std::unique_ptr<Channel> collective_channel_;  ///< the worker's, or null
  std::unique_ptr<NativeCollectives> native_;
  std::unique_ptr<MetaCollectives> meta_;  ///< on the meta device only, where there is no worker
  std::deque<MetaTask*> unsettled_{};      ///< in order of issue
  std::unique_ptr<Worker> worker_;         ///< declared last: it uses the others until it ends
};

}  // namespace lockstep
