#pragma once

#include <cstddef>

namespace lockstep::fuzz {

/// Measures how much memory the program has allocated at most at the same time, beyond what it had
/// when the measurement began.
class PeakOfAllocations {
 public:
  PeakOfAllocations();
  std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace lockstep::fuzz
