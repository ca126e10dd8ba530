#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viz/read/timeline/analysis.h"

namespace lockstep::viz {

/// Returns whether a span is a message of a collective that ran as a ring.
bool is_of_ring(const Timeline& timeline, const TimelineSpan& span);

/// One collective that its ranks ran as a ring: each rank sends only to the next one.
struct RingCollective {
  NameId group = 0;
  NameId operation = 0;
  int sequence = -1;
  std::vector<int> ranks;  ///< in ring order, the lowest first
  Interval time{};         ///< from the first message's start to the last one's arrival

  bool has(int rank) const;
  bool operator==(const RingCollective&) const = default;
};

/// Returns the collectives of a step that ran as rings, the longest first. Step -1 stands for spans
/// without a step. Rings that the trace does not close are left out.
std::vector<RingCollective> ring_collectives(const Timeline& timeline, int step);

/// The messages from one rank of a ring to the next.
struct RingLink {
  int from = 0, to = 0;
  struct Transfer {
    Interval time{};  ///< from the message's start to its arrival
    std::int64_t bytes = 0;
    bool operator==(const Transfer&) const = default;
  };
  std::vector<Transfer> transfers;  ///< by time: one for each of the ring's steps
  bool between_nodes = false;       ///< of the modelled cluster

  std::int64_t bytes() const;
  Picoseconds slowest() const;  ///< the longest transfer
  double mean() const;          ///< of the transfers' times, in picoseconds
};

/// A ring with all its messages.
struct Ring {
  RingCollective collective;
  std::string operation, group;
  int step = -1;
  std::vector<RingLink> links;  ///< links[i] begins at collective.ranks[i]
  bool nodes_known = false;     ///< whether the trace describes the cluster
  /// α and β n/N of the slowest link for the largest message, in picoseconds, if the trace
  /// describes the cluster.
  std::optional<std::pair<double, double>> latency_and_bytes;

  std::size_t size() const { return links.size(); }
  std::size_t steps() const;  ///< the most transfers of a link
  std::size_t slowest_link() const;
  /// Returns whether the slowest transfer took equally long on every link.
  bool links_alike() const;
  /// Returns whether the trace contains exactly the steps of the textbook's ring: N-1, or 2(N-1)
  /// for an all-reduce.
  bool complete() const;
  /// Returns whether step i belongs to the second half of an all-reduce, which is an all-gather.
  bool gathers(std::size_t i) const;
  /// Returns the chunk that links[link] carries in step i, counted from 0. The chunk follows from
  /// the operation: a reduce-scatter leaves chunk k on member k, an all-gather starts with chunk k
  /// on member k, and each step moves every chunk in motion to the next member. None if the ring is
  /// not complete.
  std::optional<std::size_t> chunk(std::size_t link, std::size_t i) const;
  std::int64_t largest_message() const;
  /// Returns the time for which a chunk travels if it crosses one link per step, each in its mean
  /// time, in picoseconds: the longest over all ranks at which it may start. If all links are
  /// alike, this is 2(N-1)(α + β n/N) for an all-reduce of n bytes.
  double longest_path() const;
  /// Returns the time of step i (from 0) over all links. There is none if no link has that many
  /// transfers.
  std::optional<Interval> time_of_step(std::size_t i) const;
};
Ring ring_of(const Timeline& timeline, int step, const RingCollective& collective);

/// Returns a short name such as "27.9 µs: dp all_reduce 3, ranks 0-3".
std::string collective_words(const Timeline& timeline, const RingCollective& collective);
/// Explains the collective's time in sentences.
std::vector<std::string> ring_sentences(const Ring& ring);
/// Returns the lines that explain one link.
std::vector<std::string> link_words(const Ring& ring, std::size_t link);
/// Returns the lines that explain step i (from 0).
std::vector<std::string> ring_step_words(const Ring& ring, std::size_t i);

}  // namespace lockstep::viz
