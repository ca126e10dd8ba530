#pragma once

#include <cstddef>

namespace lockstep::fuzz {

/// Measures the peak of the program's allocated memory, relative to the memory allocated when the
/// measurement began.
class PeakOfAllocations {
 public:
  PeakOfAllocations();
  std::size_t bytes() const;

 private:
  std::size_t before_;
};

}  // namespace lockstep::fuzz
