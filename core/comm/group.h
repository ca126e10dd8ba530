#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/comm/channel.h"
#include "core/comm/group_collectives.h"
#include "core/comm/run_collective.h"

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
  /// The number of consecutive members that share a node of the run's cluster; 0 if all members
  /// share one, or if they do not form equal blocks (members_per_node()).
  int per_node() const { return per_node_; }
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
  /// Leaves the sum over all members on every member; the sums are bitwise identical. Throws
  /// std::invalid_argument for Algorithm::rings, and for Algorithm::in_switch unless the tensors
  /// are on the meta device, the cluster's switches can add, and all members are on one node.
  /// Without an algorithm, with_default_algorithm() chooses: a ring, unless the modelled cluster
  /// uses the collectives of a library.
  Work all_reduce(View data, std::optional<Algorithm> chosen = {},
                  std::source_location where = std::source_location::current());
  /// Divides `data` into size() chunks (see chunk()). On member i, chunk i of `data` becomes the
  /// sum over all members, and the other chunks are left with partial sums (ring).
  Work reduce_scatter(View data, std::source_location where = std::source_location::current());
  /// Member i contributes chunk i of `data`; afterwards, every member holds all chunks (ring).
  Work all_gather(View data, std::source_location where = std::source_location::current());
  /// Member i contributes chunk i of `data`; afterwards, the root holds all chunks (one message per
  /// member).
  Work gather(View data, int root, std::source_location where = std::source_location::current());
  /// Sends chunk i of `out` to member i and receives that member's chunk into chunk i of `in`
  /// (pairwise). Throws std::invalid_argument unless both views have the same number of elements.
  Work all_to_all(View out, View in, std::source_location where = std::source_location::current());
  /// Like all_to_all(), but in two hops, so that fewer and larger messages cross nodes: first to
  /// the member of this node with the receiver's place, then to the receiver. In a group on one
  /// node, or without equal blocks of members per node, it is the same as all_to_all().
  Work two_hop_all_to_all(View out, View in,
                          std::source_location where = std::source_location::current());
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
  /// Chooses how this group runs its collectives.
  std::unique_ptr<GroupCollectives> collectives(int channel);
  /// Issues and records a collective that works on `data` and `in` (see run()). Fills in the fields
  /// of `collective` and `call` that depend on the data.
  Work issue(Collective collective, View data, CollectiveCall call, View in = {});
  Members members() const { return {endpoint_, ranks_, rank_, name_}; }
  std::vector<int> chunk_counts(View data) const;
  // Each of these functions validates an operation's argument and returns it, or throws
  // std::invalid_argument.
  View checked(const char* operation, View data) const;
  int member(const char* operation, int i) const;
  /// Returns the collective with its default algorithm (with_default_algorithm()).
  const Collective& with_default(Operation operation, View data);
  std::int64_t scratch_of(const Collective& collective, View data) const;
  /// Throws std::invalid_argument unless the switch can add this group's elements.
  void check_in_switch() const;
  Work equal_all_to_all(View out, View in, int per_node, std::source_location where);
  Work exchange(View out, std::vector<std::int64_t> send_counts, View in,
                std::vector<std::int64_t> receive_counts, int per_node, std::source_location where);
  /// Returns the description of an operation that each of its messages carries. `algorithm`,
  /// `whole` and `root` apply only to a collective.
  Channel::Part part(const char* name, std::source_location where, const char* algorithm = nullptr,
                     std::int64_t whole = -1, int root = -1) const;

  Endpoint endpoint_;
  std::vector<int> ranks_;
  std::string name_;
  const char* kept_name_;  ///< for spans, which outlive the group
  int rank_ = 0;
  int per_node_;
  /// The results of with_default(), by operation, number of elements and type.
  std::map<std::tuple<Operation, std::int64_t, DType>, Collective> defaults_;
  Channel messages_;
  int recorded_ = -1;  ///< this group's number in the OperationLog, if there is one
  std::unique_ptr<GroupCollectives> collectives_;  ///< declared last: it uses the others
};

}  // namespace lockstep
