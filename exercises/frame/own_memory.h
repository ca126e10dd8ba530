#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "exercises/frame/check.h"

namespace lockstep::exercises {

/// Counts the memory that an answer holds outside of Buffers, such as in a std::vector, while this
/// object exists on the rank's thread: a check puts one around the call of the answer. The most at
/// a time becomes Outcome::own_bytes. The address sanitizer reports each allocation; without it,
/// nothing is counted. At most one exists on a thread.
class OwnMemory {
 public:
  explicit OwnMemory(World& world);
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  void allocated(const volatile void* memory, std::size_t bytes);
  void freed(const volatile void* memory);

 private:
  friend class Uncounted;
  World& world_;
  int uncounted_ = 0;
  std::int64_t held_ = 0, peak_ = 0;
  std::unordered_map<const volatile void*, std::size_t> sizes_;
};

/// While this object exists, what the thread allocates is not the answer's: an operation of the
/// frame, or a function that the check provides, is at work.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
};

/// Throws Wrong if a rank has held more than this many numbers outside of Buffers, apart from lists
/// of Works and the like. `most` is what they are: "one shard is".
void expect_in_buffers(const std::string& what, const Outcome& outcome, std::size_t numbers,
                       const std::string& most);

}  // namespace lockstep::exercises
