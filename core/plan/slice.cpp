#include "core/plan/slice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace lockstep {

Shape shape_of(std::span<const std::int64_t> extents) {
  switch (extents.size()) {
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    case 3:
      return {extents[0], extents[1], extents[2]};
    case 4:
      return {extents[0], extents[1], extents[2], extents[3]};
    case 0:
      return {};
    default:
      throw std::invalid_argument("a shape has at most 4 extents");
  }
}

std::vector<std::int64_t> extents_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int d = 0; d < shape.rank(); ++d) extents.push_back(shape[d]);
  return extents;
}

namespace {

using Strides = std::array<std::int64_t, Shape::max_rank>;

std::size_t at(int dimension) {
  return static_cast<std::size_t>(dimension);
}

Strides row_major(const Shape& shape) {
  Strides strides{};
  std::int64_t stride = 1;
  for (int d = shape.rank(); d-- > 0;) {
    strides[at(d)] = stride;
    stride *= shape[d];
  }
  return strides;
}

/// Indices [whole, whole + count) of a dimension, stored at [local, local + count).
struct ElementRange {
  std::int64_t whole = 0;
  std::int64_t local = 0;
  std::int64_t count = 0;
};

/// One dimension's stored intervals and its local length.
struct Extent {
  std::vector<ElementRange> intervals;
  std::int64_t local = 0;

  void cut(const DimensionCut& cut) {
    const std::vector<std::int64_t> sections =
        cut.sections.empty() ? std::vector{local} : cut.sections;
    if (cut.parts < 1 || cut.part < 0 || cut.part >= cut.parts || cut.grain < 1 ||
        std::ranges::min(sections) < 0 ||
        std::accumulate(sections.begin(), sections.end(), std::int64_t{0}) != local)
      throw std::invalid_argument(fmt::format("part {} of {} of {} elements in sections of [{}]",
                                              cut.part, cut.parts, local,
                                              fmt::join(sections, ", ")));
    const std::int64_t unit = cut.parts * cut.grain;
    std::vector<ElementRange> kept;
    std::int64_t before = 0, stored = 0;  // the earlier sections' elements, and those of this part
    for (const std::int64_t section : sections) {
      const std::int64_t each = (section + unit - 1) / unit * cut.grain;
      const std::int64_t begin = before + std::min(section, cut.part * each);
      const std::int64_t end = before + std::min(section, (cut.part + 1) * each);
      for (const ElementRange& old : intervals) {
        const std::int64_t first = std::max(begin, old.local);
        const std::int64_t last = std::min(end, old.local + old.count);
        if (first < last)
          kept.push_back({.whole = old.whole + first - old.local,
                          .local = stored + first - begin,
                          .count = last - first});
      }
      before += section;
      stored += each;
    }
    intervals = std::move(kept);
    local = stored;
  }
};

}  // namespace

Slice::Slice(const Shape& whole, std::span<const DimensionCut> cuts) : whole_(whole) {
  const int rank = whole.rank();
  std::array<Extent, Shape::max_rank> extents;
  for (int d = 0; d < rank; ++d) extents[at(d)] = {{{0, 0, whole[d]}}, whole[d]};
  for (const DimensionCut& cut : cuts) {
    if (cut.dimension < 0 || cut.dimension >= rank)
      throw std::invalid_argument(
          fmt::format("a cut of dimension {} of a tensor that has {}", cut.dimension, rank));
    extents[at(cut.dimension)].cut(cut);
  }
  Strides local{};
  for (int d = 0; d < rank; ++d) local[at(d)] = extents[at(d)].local;
  local_ = shape_of({local.data(), at(rank)});
  if (local_.elements() == 0) return;
  const Strides strides = row_major(local_);

  // Each combination of one interval per dimension is a box; the last dimension varies fastest.
  std::array<std::size_t, Shape::max_rank> chosen{};
  for (int d = 0; d < rank; ++d)
    if (extents[at(d)].intervals.empty()) return;  // only padding
  for (bool more = true; more;) {
    Piece piece{.strides = strides};
    Strides extent{};
    for (int d = 0; d < rank; ++d) {
      const ElementRange& interval = extents[at(d)].intervals[chosen[at(d)]];
      piece.box.begin[at(d)] = interval.whole;
      piece.offset += interval.local * strides[at(d)];
      extent[at(d)] = interval.count;
    }
    piece.box.extent = shape_of({extent.data(), at(rank)});
    pieces_.push_back(piece);
    more = false;
    for (int d = rank; d-- > 0 && !more;) {
      more = ++chosen[at(d)] < extents[at(d)].intervals.size();
      if (!more) chosen[at(d)] = 0;
    }
  }
}

namespace {

/// Appends the part of `piece` in [first, last) of local storage to `into`. In the dimensions
/// before `dimension`, `piece` has a single index. Rows along a dimension do not overlap in
/// storage, so the dimension's indices form one range that lies entirely inside [first, last), plus
/// at most one partly covered index on either side.
void clip(const Slice::Piece& piece, int dimension, std::int64_t first, std::int64_t last,
          std::vector<Slice::Piece>& into) {
  const Shape& extent = piece.box.extent;
  std::int64_t span = 1;  // from the first to the last element, inclusive
  for (int d = dimension; d < extent.rank(); ++d) span += (extent[d] - 1) * piece.strides[at(d)];
  if (piece.offset >= last || piece.offset + span <= first) return;
  if (piece.offset >= first && piece.offset + span <= last) {
    into.push_back(piece);
    return;
  }
  const std::int64_t stride = piece.strides[at(dimension)];
  const std::int64_t row = span - (extent[dimension] - 1) * stride;
  const auto rows = [&](std::int64_t begin, std::int64_t count) {
    Slice::Piece part = piece;
    part.box.begin[at(dimension)] += begin;
    part.offset += begin * stride;
    Strides extents{};
    for (int d = 0; d < extent.rank(); ++d) extents[at(d)] = d == dimension ? count : extent[d];
    part.box.extent = shape_of({extents.data(), at(extent.rank())});
    return part;
  };
  // Rows [from, to) lie entirely inside the range.
  const auto up = [](std::int64_t n, std::int64_t by) { return n <= 0 ? 0 : (n + by - 1) / by; };
  const std::int64_t n = extent[dimension];
  const std::int64_t from = std::min(n, up(first - piece.offset, stride));
  const std::int64_t room = last - piece.offset - row;
  const std::int64_t to = std::max(from, room < 0 ? 0 : std::min(n, room / stride + 1));
  if (from > 0) clip(rows(from - 1, 1), dimension + 1, first, last, into);
  if (from < to) into.push_back(rows(from, to - from));
  if (to < n) clip(rows(to, 1), dimension + 1, first, last, into);
}

}  // namespace

Slice Slice::of_pieces(const Shape& whole, const Shape& local, std::vector<Piece> pieces) {
  Slice slice;
  slice.whole_ = whole;
  slice.local_ = local;
  slice.pieces_ = std::move(pieces);
  return slice;
}

Slice Slice::range(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first + count > local_.elements())
    throw std::invalid_argument(fmt::format("elements {} to {} of a slice that stores {}", first,
                                            first + count, local_.elements()));
  Slice part;
  part.whole_ = whole_;
  part.local_ = {count};
  for (const Piece& piece : pieces_) clip(piece, 0, first, first + count, part.pieces_);
  for (Piece& piece : part.pieces_) piece.offset -= first;
  return part;
}

std::int64_t Slice::elements() const {
  std::int64_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.box.extent.elements();
  return sum;
}

std::vector<Slice::Run> Slice::runs(const Box& frame) const {
  std::vector<Run> runs;
  const Strides rows = row_major(frame.extent);
  for (const Piece& piece : pieces_) {
    const std::optional<Box> both = intersection(piece.box, frame);
    if (!both) continue;
    const Shape& extent = both->extent;
    // Merge trailing dimensions that are contiguous on both sides into one run.
    int inner = extent.rank();
    std::int64_t length = 1;
    while (inner > 0 && (extent[inner - 1] == 1 ||
                         (rows[at(inner - 1)] == length && piece.strides[at(inner - 1)] == length)))
      length *= extent[--inner];
    std::int64_t in_box = 0;
    std::int64_t in_local = piece.offset;
    for (int d = 0; d < extent.rank(); ++d) {
      in_box += (both->begin[at(d)] - frame.begin[at(d)]) * rows[at(d)];
      in_local += (both->begin[at(d)] - piece.box.begin[at(d)]) * piece.strides[at(d)];
    }
    Strides index{};
    for (bool more = true; more;) {
      if (!runs.empty() && runs.back().in_box + runs.back().elements == in_box &&
          runs.back().in_local + runs.back().elements == in_local)
        runs.back().elements += length;
      else
        runs.push_back({in_box, in_local, length});
      more = false;
      for (int d = inner; d-- > 0 && !more;) {
        in_box += rows[at(d)];
        in_local += piece.strides[at(d)];
        more = ++index[at(d)] < extent[d];
        if (more) break;
        in_box -= extent[d] * rows[at(d)];
        in_local -= extent[d] * piece.strides[at(d)];
        index[at(d)] = 0;
      }
    }
  }
  return runs;
}

std::string Slice::text() const {
  std::vector<std::string> boxes;
  for (const Piece& piece : pieces_) boxes.push_back(piece.box.text());
  return fmt::format("{} of [{}]",
                     boxes.empty() ? "nothing" : fmt::format("{}", fmt::join(boxes, " + ")),
                     fmt::join(extents_of(whole_), ", "));
}

std::string Slice::json() const {
  std::vector<std::string> boxes;
  for (const Piece& piece : pieces_) {
    const std::span begin{piece.box.begin.data(), at(piece.box.extent.rank())};
    boxes.push_back(fmt::format(R"({{"begin":[{}],"extent":[{}]}})", fmt::join(begin, ","),
                                fmt::join(extents_of(piece.box.extent), ",")));
  }
  return fmt::format(R"({{"whole":[{}],"local":[{}],"boxes":[{}]}})",
                     fmt::join(extents_of(whole_), ","), fmt::join(extents_of(local_), ","),
                     fmt::join(boxes, ","));
}

}  // namespace lockstep
