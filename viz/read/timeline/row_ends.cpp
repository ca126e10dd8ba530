#include "viz/read/timeline/row_ends.h"

#include <algorithm>
#include <limits>

namespace lockstep {

namespace {
constexpr Picoseconds never = std::numeric_limits<Picoseconds>::max();
}

std::size_t RowEnds::first_free(Picoseconds time) const {
  if (count_ == 0 || least_[1] > time) return count_;
  std::size_t node = 1;
  while (node < leaves()) node = least_[2 * node] <= time ? 2 * node : 2 * node + 1;
  return std::min(node - leaves(), count_);
}

void RowEnds::set(std::size_t row, Picoseconds end) {
  while (row >= leaves()) grow();
  count_ = std::max(count_, row + 1);
  std::size_t node = leaves() + row;
  least_[node] = end;
  for (node /= 2; node > 0; node /= 2)
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
}

void RowEnds::grow() {
  const std::size_t old = leaves();
  const std::size_t size = std::max<std::size_t>(2 * old, 1);
  std::vector<Picoseconds> larger(2 * size, never);
  std::copy(least_.begin() + static_cast<std::ptrdiff_t>(old), least_.end(),
            larger.begin() + static_cast<std::ptrdiff_t>(size));
  least_ = std::move(larger);
  for (std::size_t node = size - 1; node > 0; --node)
    least_[node] = std::min(least_[2 * node], least_[2 * node + 1]);
}

}  // namespace lockstep
