#pragma once

#include <string>
#include <vector>

#include "core/comm/channel.h"

namespace lockstep {

/// An ordered set of ranks and what they do together, all in place on contiguous f32 views. Every
/// rank of the group calls the same operations with the same sizes in the same order; each returns
/// a Work whose wait() makes the compute stream go on no earlier than the operation's end. An
/// operation begins, on the group's own stream, at the point of the compute stream where it was
/// called; on the modelled clock it overlaps with what is computed until wait(). On the wall clock
/// it is over when the call returns. Additions are free on the modelled clock (no gamma term). With
/// one member every operation is over at once and sends nothing.
class Group {
 public:
  /// `ranks` are numbers of the whole run and include this one; the same `ranks`, `name` and `id`
  /// on every member. `id` is the number of the group's Channel.
  Group(Endpoint endpoint, std::vector<int> ranks, std::string name, int id);

  /// This rank's place in the group, 0 .. size() - 1.
  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// Which rank of the whole run the group's i-th member is.
  int world_rank(int i) const { return ranks_[static_cast<std::size_t>(i)]; }
  const std::string& name() const { return name_; }
  Channel& channel() { return channel_; }

  /// Point-to-point between members, numbered as in the group.
  Work send(View data, int to, std::source_location where = std::source_location::current());
  Work receive(View into, int from, std::source_location where = std::source_location::current());

  /// The root's elements reach everybody (binomial tree).
  Work broadcast(View data, int root, std::source_location where = std::source_location::current());
  /// Every member ends with the sum over members (ring).
  Work all_reduce(View data, std::source_location where = std::source_location::current());
  /// `data` is cut into size() chunks (see chunk()); member i ends with the sum over members of
  /// chunk i, in its place in `data`; the other chunks hold partial sums.
  Work reduce_scatter(View data, std::source_location where = std::source_location::current());
  /// Member i brings chunk i of `data`; everybody ends with all of them.
  Work all_gather(View data, std::source_location where = std::source_location::current());
  /// Nobody's barrier is over before everybody has come (dissemination: ⌈log₂ N⌉ rounds).
  Work barrier(std::source_location where = std::source_location::current());

  /// Chunk i of n elements among size() members: the first n mod size() chunks have one element
  /// more.
  View chunk(View data, int i) const;

 private:
  Span span(const char* name, const char* algorithm) const;
  /// Exchanges with two neighbours at once and waits for both; returns when what came is there.
  Event exchange(View out, int to, View in, int from, Event ready, const Span& span,
                 std::source_location where);
  Event ring_reduce_scatter(View data, Event ready, const Span& span, std::source_location where);
  Event ring_all_gather(View data, Event ready, const Span& span, std::source_location where);
  int neighbour(int offset) const { return (rank_ + offset + size()) % size(); }

  std::vector<int> ranks_;
  std::string name_;
  const char* kept_name_;  ///< for spans, which outlive the group
  int rank_ = 0;
  Channel channel_;
};

}  // namespace lockstep
