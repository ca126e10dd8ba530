#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "core/comm/work.h"
#include "core/plan/mesh.h"

namespace lockstep {
class Group;
}

/// The interface that the exercises offer to learners.
namespace lockstep::exercises {

struct RankState;

/// Numbers in a rank's memory. A check sees the peak of the numbers that a rank has held at a time,
/// so free a Buffer with reset() as soon as its numbers are no longer needed. Move-only.
class Buffer {
 public:
  Buffer() = default;
  Buffer(RankState& rank, std::size_t numbers);
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;

  /// Frees the numbers now.
  void reset();
  std::size_t size() const { return numbers_.size(); }
  bool empty() const { return numbers_.empty(); }
  float& operator[](std::size_t i) { return numbers_[i]; }
  float operator[](std::size_t i) const { return numbers_[i]; }
  std::span<float> span() { return numbers_; }
  operator std::span<float>() { return numbers_; }
  operator std::span<const float>() const { return numbers_; }

 private:
  RankState* rank_ = nullptr;
  std::vector<float> numbers_;
};

/// An operation that has been started. Every Work must be waited for: destroying it earlier
/// abandons the operation. Move-only.
class [[nodiscard]] Work {
 public:
  Work() = default;
  explicit Work(lockstep::Work work) : work_(std::make_unique<lockstep::Work>(std::move(work))) {}

  /// Returns when the operation is over. Does nothing if there is none, or after the first call.
  void wait();
  explicit operator bool() const { return work_ != nullptr && bool{*work_}; }

 private:
  std::unique_ptr<lockstep::Work> work_;
};

/// The ranks of an exercise, as one of them sees them. A rank can send messages to the others and
/// receive theirs. Several exercises ask the learner to write collectives; the other exercises can
/// include exercises/frame/collectives.h.
///
/// Time is modelled: a message of n numbers takes 1 µs + n · 4 ns, whatever else the ranks do
/// meanwhile, compute() takes the given time, and everything else takes no time.
class World {
 public:
  World(RankState& state, Group& ranks) : state_(state), ranks_(ranks) {}

  int rank() const;  ///< this rank's number, 0 .. size() - 1
  int size() const;  ///< the number of ranks

  /// Starts to send `data` to rank `to`, or to receive a message of exactly that size from rank
  /// `from`. The Work's wait() returns when the message has been delivered: a send ends only when
  /// the receiver takes the message, as with NCCL. The buffer belongs to the operation until then:
  /// numbers that are sent must stay unchanged, and numbers that are received have not arrived yet.
  /// (A receive buffer contains NaNs until wait() returns, so that a check recognizes numbers that
  /// are used too early.)
  Work send(std::span<const float> data, int to,
            std::source_location where = std::source_location::current());
  Work receive(std::span<float> into, int from,
               std::source_location where = std::source_location::current());

  /// Lets this rank compute for this time. The picture shows `name`, such as "F0".
  void compute(const std::string& name, double microseconds);

  /// Returns memory for this many numbers, all 0.
  Buffer allocate(std::size_t numbers);

  /// The ranks that differ from this rank only in their coordinate along `axis`, in order of that
  /// coordinate. All of them make the first such call at the same point of the program.
  World along(Axis axis);
  /// This rank's coordinate along the axis, and the number of ranks along it.
  int coordinate(Axis axis) const;
  int size(Axis axis) const;

 private:
  friend struct Frame;  // exercises/frame/staging.h
  RankState& state_;
  Group& ranks_;
};

[[noreturn]] void no_such_chunk(int i, int N);

/// Returns chunk i of N: the first n mod N chunks have one more element than the others.
template <class Element>
std::span<Element> chunk(std::span<Element> data, int i, int N) {
  if (i < 0 || i >= N) no_such_chunk(i, N);
  const auto each = data.size() / static_cast<std::size_t>(N);
  const auto longer = data.size() % static_cast<std::size_t>(N);
  const auto at = static_cast<std::size_t>(i);
  return data.subspan(at * each + std::min(at, longer), each + (at < longer ? 1 : 0));
}

/// Ends the check with the message that this part of the answer has not been written.
[[noreturn]] void not_written();

}  // namespace lockstep::exercises
