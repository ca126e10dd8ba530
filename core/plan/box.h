#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/view.h"

namespace lockstep {

/// Elements [begin, begin + extent) of a tensor in each dimension.
struct Box {
  std::array<std::int64_t, Shape::max_rank> begin{};
  Shape extent;

  std::int64_t end(int dimension) const {
    return begin[static_cast<std::size_t>(dimension)] + extent[dimension];
  }
  bool operator==(const Box&) const = default;
  /// Returns "[0:64, 16:32]".
  std::string text() const;
};

/// Returns the elements that are in both boxes of one tensor, or nothing if there are none.
std::optional<Box> intersection(const Box& a, const Box& b);

/// Returns the elements of `box` outside `other`, as boxes that do not overlap: at most two for
/// each dimension.
std::vector<Box> difference(const Box& box, const Box& other);

/// Divides a tensor among its holders, each of which holds the elements of some boxes: an element
/// goes to the first of its holders. Returns the boxes that each holder gets.
std::vector<std::vector<Box>> first_holders(const std::vector<std::vector<Box>>& holders);

/// Returns whether the boxes contain every element of a tensor of this shape exactly once.
bool cover_once(const std::vector<Box>& boxes, const Shape& whole);

}  // namespace lockstep
