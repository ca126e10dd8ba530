#include "core/plan/box.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/plan/slice.h"

namespace lockstep {

namespace {

/// Returns `box` with the interval [begin, end) in one dimension.
Box with_interval(const Box& box, int dimension, std::int64_t begin, std::int64_t end) {
  Box result = box;
  std::vector<std::int64_t> extents = extents_of(box.extent);
  result.begin[static_cast<std::size_t>(dimension)] = begin;
  extents[static_cast<std::size_t>(dimension)] = end - begin;
  result.extent = shape_of(extents);
  return result;
}

std::int64_t begin_of(const Box& box, int dimension) {
  return box.begin[static_cast<std::size_t>(dimension)];
}

}  // namespace

std::string Box::text() const {
  std::vector<std::string> ranges;
  for (int d = 0; d < extent.rank(); ++d)
    ranges.push_back(fmt::format("{}:{}", begin_of(*this, d), end(d)));
  return fmt::format("[{}]", fmt::join(ranges, ", "));
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int d = 0; d < a.extent.rank(); ++d) {
    const std::int64_t begin = std::max(begin_of(a, d), begin_of(b, d));
    const std::int64_t end = std::min(a.end(d), b.end(d));
    if (begin >= end) return {};
    both = with_interval(both, d, begin, end);
  }
  return both;
}

std::vector<Box> difference(const Box& box, const Box& other) {
  const std::optional<Box> both = intersection(box, other);
  if (!both) return {box};
  std::vector<Box> outside;
  // In each dimension, splits off the parts before and after the intersection. The next dimension
  // divides the part between them.
  Box rest = box;
  for (int d = 0; d < box.extent.rank(); ++d) {
    if (begin_of(rest, d) < begin_of(*both, d))
      outside.push_back(with_interval(rest, d, begin_of(rest, d), begin_of(*both, d)));
    if (both->end(d) < rest.end(d))
      outside.push_back(with_interval(rest, d, both->end(d), rest.end(d)));
    rest = with_interval(rest, d, begin_of(*both, d), both->end(d));
  }
  return outside;
}

std::vector<std::vector<Box>> first_holders(const std::vector<std::vector<Box>>& holders) {
  std::vector<std::vector<Box>> firsts;
  std::vector<Box> taken;
  for (const std::vector<Box>& held : holders) {
    std::vector<Box>& mine = firsts.emplace_back();
    for (const Box& box : held) {
      std::vector<Box> left{box};
      for (std::size_t i = 0; i < taken.size() && !left.empty(); ++i) {
        std::vector<Box> outside;
        for (const Box& each : left)
          for (const Box& part : difference(each, taken[i])) outside.push_back(part);
        left = std::move(outside);
      }
      taken.insert(taken.end(), left.begin(), left.end());
      mine.insert(mine.end(), left.begin(), left.end());
    }
  }
  return firsts;
}

namespace {

/// A corner of a box, with its sign in the box's mixed difference.
struct Corner {
  std::array<std::int64_t, Shape::max_rank> at{};
  int sign = 1;
};

void add_corners(const Box& box, int sign, std::vector<Corner>& corners) {
  const int rank = box.extent.rank();
  for (unsigned ends = 0; ends < 1U << rank; ++ends) {
    Corner& corner = corners.emplace_back(Corner{box.begin, sign});
    for (int d = 0; d < rank; ++d)
      if ((ends >> d & 1U) != 0) {
        corner.at[static_cast<std::size_t>(d)] = box.end(d);
        corner.sign = -corner.sign;
      }
  }
}

}  // namespace

bool cover_once(const std::vector<Box>& boxes, const Shape& whole) {
  for (const Box& box : boxes) {
    if (box.extent.rank() != whole.rank()) return false;
    for (int d = 0; d < whole.rank(); ++d)
      if (begin_of(box, d) < 0 || box.extent[d] < 1 || box.extent[d] > whole[d] ||
          begin_of(box, d) > whole[d] - box.extent[d])
        return false;
  }
  if (whole.rank() == 0) return true;  // no elements
  // Let f(x) be the number of boxes that contain x. A box's mixed difference (the difference along
  // one dimension after the other) is +1 or -1 at its corners, and 0 elsewhere. Differences
  // determine f, so f is 1 in the whole tensor and 0 outside if and only if the boxes' signed
  // corners add up to those of the whole tensor. Sorting takes n log n steps, and comparing every
  // pair of boxes would take n^2.
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << whole.rank());
  for (const Box& box : boxes) add_corners(box, 1, corners);
  if (std::ranges::all_of(extents_of(whole), [](std::int64_t extent) { return extent > 0; }))
    add_corners({.begin = {}, .extent = whole}, -1, corners);
  std::ranges::sort(corners, {}, &Corner::at);
  for (std::size_t i = 0; i < corners.size();) {
    std::int64_t sum = 0;
    const std::size_t first = i;
    for (; i < corners.size() && corners[i].at == corners[first].at; ++i) sum += corners[i].sign;
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace lockstep
