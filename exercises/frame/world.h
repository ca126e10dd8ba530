#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include "core/comm/work.h"

namespace lockstep {
class Group;
}

/// What the exercises offer to those who solve them.
namespace lockstep::exercises {

/// All ranks of an exercise, as one of them sees them. A rank can send messages to the others and
/// receive theirs, and nothing else: collectives are what several exercises ask for.
class World {
 public:
  explicit World(Group& ranks) : ranks_(ranks) {}

  int rank() const;  ///< this rank's number, 0 .. size() - 1
  int size() const;  ///< the number of ranks

  /// Starts to send `data` to rank `to`, or to receive a message of exactly that size from rank
  /// `from`. The Work's wait() returns when the message has been delivered: a send ends only when
  /// the receiver takes the message, as with NCCL. The buffer must stay unchanged until then.
  Work send(std::span<const float> data, int to,
            std::source_location where = std::source_location::current());
  Work receive(std::span<float> into, int from,
               std::source_location where = std::source_location::current());

 private:
  Group& ranks_;
};

/// Returns chunk i of N: the first n mod N chunks have one more element than the others.
template <class Element>
std::span<Element> chunk(std::span<Element> data, int i, int N) {
  const auto each = data.size() / static_cast<std::size_t>(N);
  const auto longer = data.size() % static_cast<std::size_t>(N);
  const auto at = static_cast<std::size_t>(i);
  return data.subspan(at * each + std::min(at, longer), each + (at < longer ? 1 : 0));
}

/// Ends the check with the message that this part of the answer has not been written.
[[noreturn]] void not_written();

}  // namespace lockstep::exercises
