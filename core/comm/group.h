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

/// An ordered set of ranks and what they do together, all in place on contiguous views of
/// f32, bf16 or f16 (std::invalid_argument for others, and for members that there are not). Narrow
/// sums are made in f32 and rounded at every step of the algorithm; MPI's own collectives know
/// f32 only, and std::invalid_argument says so. Every rank of the group calls the same
/// operations with the same sizes in the same order; each returns a Work whose wait() makes the
/// compute stream go on no earlier than the operation's end. A Group outlives its Works.
///
/// On the meta device no messages are sent: see MetaCollectives.
///
/// Collectives run one after another on a communication stream of the group's own, from the point
/// of the compute stream on where they were called, while this rank computes; until wait(). Their
/// additions are free on the modelled clock (no gamma term). With one member every operation is
/// over at once and sends nothing. After a collective that failed, or whose Work was dropped before
/// it was done, the group does no others: their wait() throws and says why.
class Group {
 public:
  /// `ranks` are numbers of the whole run and include this one; the same `ranks`, `name` and
  /// `channels` on every member. `channels` is the first of the two channel numbers that a group
  /// takes of Transport::open_channels. Throws std::invalid_argument where this rank is no member,
  /// or has a living group of that name already. With the backend's own collectives all members
  /// make the group at the same time, and wait for one another.
  static constexpr int channels_taken = 2;
  Group(Endpoint endpoint, std::vector<int> ranks, std::string name, int channels);
  ~Group();

  /// This rank's place in the group, 0 .. size() - 1.
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// Which rank of the whole run the group's i-th member is.
  int world_rank(int i) const { return ranks_[static_cast<std::size_t>(i)]; }
  const std::string& name() const { return name_; }

  /// Point-to-point between members, numbered as in the group, on a stream apart from collectives.
  /// Sends are done in the order in which they were begun, to whomever; and so are receives.
  Work send(View data, int to, std::source_location where = std::source_location::current());
  Work receive(View into, int from, std::source_location where = std::source_location::current());

  /// The root's elements reach everybody (binomial tree).
  Work broadcast(View data, int root, std::source_location where = std::source_location::current());
  /// Every member ends with the sum over members, the same bits on all.
  Work all_reduce(View data, Algorithm algorithm = Algorithm::ring,
                  std::source_location where = std::source_location::current());
  /// `data` is cut into size() chunks (see chunk()); member i ends with the sum over members of
  /// chunk i, in its place in `data`; the other chunks hold partial sums (ring).
  Work reduce_scatter(View data, std::source_location where = std::source_location::current());
  /// Member i brings chunk i of `data`; everybody ends with all of them (ring).
  Work all_gather(View data, std::source_location where = std::source_location::current());
  /// Member i brings chunk i of `data`; the root ends with all of them (one message a member).
  Work gather(View data, int root, std::source_location where = std::source_location::current());
  /// Chunk i of `out` goes to member i, whose chunk for this member comes to chunk i of `in`; as
  /// many elements in each, std::invalid_argument otherwise (pairwise).
  Work all_to_all(View out, View in, std::source_location where = std::source_location::current());
  /// The same with chunks of any sizes, in elements, one after another: what member i sends to j, j
  /// expects from i.
  Work all_to_all_v(View out, std::vector<std::int64_t> send_counts, View in,
                    std::vector<std::int64_t> receive_counts,
                    std::source_location where = std::source_location::current());
  /// Nobody's barrier is over before everybody has come (dissemination: ⌈log₂ N⌉ rounds).
  Work barrier(std::source_location where = std::source_location::current());

  /// Chunk i of n elements among size() members: the first n mod size() chunks have one element
  /// more.
  View chunk(View data, int i) const { return chunk_of(data, i, size()); }

 private:
  /// A collective before it is issued.
  struct Call {
    const char* name;
    const char* algorithm;
    std::int64_t whole;    ///< bytes that all members agree on, or -1
    std::int64_t scratch;  ///< elements
    std::source_location where;
    int root = -1;
    DType dtype = DType::f32;  ///< of the scratch
  };
  class CollectiveTask;
  class MetaTask;

  /// Puts it on the group's stream: by `ours`, or by `theirs` where the backend's own are asked
  /// for.
  Work issue(const Call& call, std::function<void(Peers&)> ours,
             std::function<void(NativeCollectives&)> theirs);
  /// On a GPU, whose library takes the operation at once.
  Work enqueue_native(const Span& span, const Event& ready,
                      const std::function<void(NativeCollectives&)>& work);
  Event run_native(ChannelPeers& peers, const Span& span, NativeCollectives& backend,
                   const std::function<void(NativeCollectives&)>& work);
  std::vector<int> chunk_counts(View data) const;
  /// The arguments of an operation, if they are what it wants; std::invalid_argument otherwise.
  View checked(const char* operation, View data) const;
  int member(const char* operation, int i) const;
  Channel::Part part(const char* name, std::source_location where) const;

  Endpoint endpoint_;
  std::vector<int> ranks_;
  std::string name_;
  const char* kept_name_;  ///< for spans, which outlive the group
  int rank_ = 0;
  std::int64_t issued_ = 0;  ///< collectives so far: they are numbered
  Channel messages_;
  std::unique_ptr<Channel> collective_channel_;  ///< the worker's, if there is one
  std::unique_ptr<NativeCollectives> native_;
  std::unique_ptr<MetaCollectives> meta_;  ///< on the meta device; then there is no worker
  std::deque<MetaTask*> unsettled_{};      ///< in order
  std::unique_ptr<Worker> worker_;         ///< last: it uses all the others until it has ended
};

}  // namespace lockstep
