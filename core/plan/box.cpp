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

bool cover_once(std::vector<Box> boxes, const Shape& whole) {
  std::int64_t elements = 0;
  for (const Box& box : boxes) {
    if (box.extent.rank() != whole.rank()) return false;
    for (int d = 0; d < whole.rank(); ++d)
      if (begin_of(box, d) < 0 || box.extent[d] < 1 || box.extent[d] > whole[d] ||
          begin_of(box, d) > whole[d] - box.extent[d])
        return false;
    elements += box.extent.elements();
  }
  if (elements != whole.elements()) return false;
  // Only boxes whose intervals in the first dimension overlap can overlap.
  std::ranges::sort(boxes, {}, [](const Box& box) { return box.begin[0]; });
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = i + 1; j < boxes.size() && boxes[j].begin[0] < boxes[i].end(0); ++j)
      if (intersection(boxes[i], boxes[j])) return false;
  return true;
}

}  // namespace lockstep
