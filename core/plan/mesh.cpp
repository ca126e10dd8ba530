#include "core/plan/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"
#include "core/plan/divisions.h"

namespace lockstep {

namespace {

constexpr Axis all_axes[] = {Axis::tp, Axis::cp, Axis::dp, Axis::pp};

std::array<Axis, axis_count> parse_order(const std::string& text) {
  std::array<Axis, axis_count> order{};
  std::array<bool, axis_count> seen{};
  std::istringstream parts{text + ","};  // so that an empty last part is refused, too
  std::size_t count = 0;
  for (std::string part; std::getline(parts, part, ','); ++count) {
    const auto* axis = std::find_if(std::begin(all_axes), std::end(all_axes),
                                    [&](Axis each) { return part == name_of(each); });
    if (axis == std::end(all_axes) || seen[static_cast<std::size_t>(*axis)] ||
        count >= axis_count) {
      count = 0;
      break;
    }
    seen[static_cast<std::size_t>(*axis)] = true;
    order[count] = *axis;
  }
  if (count != axis_count)
    throw UsageError(fmt::format(
        "--order {}: give tp, cp, dp and pp once each, from the innermost, such as tp,cp,dp,pp",
        text));
  return order;
}

/// Returns the valid numbers of ranks nearest to `ranks`, if the axes' sizes have this product,
/// with or without an axis that takes the remaining ranks.
std::string ranks_that_work(int ranks, int product, bool with_rest) {
  const int fewer = ranks / product * product;
  if (!with_rest || fewer == 0) return fmt::format("--ranks {}", product);
  return fmt::format("--ranks {} or --ranks {}", fewer, fewer + product);
}

}  // namespace

const char* name_of(Axis axis) {
  constexpr const char* names[] = {"tp", "cp", "dp", "pp", "ep", "edp", "dp_cp"};
  return names[static_cast<std::size_t>(axis)];
}

Mesh::Mesh(int ranks, std::array<int, axis_count> sizes, const std::string& order)
    : ranks_(ranks), sizes_(sizes), order_(parse_order(order)) {
  int product = 1;
  int open = 0;
  std::string asked;
  for (Axis axis : all_axes) {
    const int size = this->size(axis);
    if (size == 0) {
      ++open;
    } else {
      product *= size;
      if (size > 1)
        asked += fmt::format("{} --{} {}", asked.empty() ? " with" : "", name_of(axis), size);
    }
  }
  if (open == 1 && ranks % product == 0) {
    for (int& size : sizes_)
      if (size == 0) size = ranks / product;
    return;
  }
  if (product != ranks || open > 0)
    throw UsageError(
        fmt::format("--ranks {}{}: {} ranks have no such layout; the sizes must {} {}; use {}",
                    ranks, asked, ranks, open > 0 ? "divide" : "multiply to", ranks,
                    ranks_that_work(ranks, product, open > 0)));
}

Mesh Mesh::along(Axis axis, int ranks) {
  std::array<int, axis_count> sizes{1, 1, 1, 1};
  sizes[static_cast<std::size_t>(axis)] = ranks;
  return {ranks, sizes};
}

Mesh Mesh::ordered(const std::string& order) const {
  Mesh mesh = *this;
  mesh.order_ = parse_order(order);
  return mesh;
}

Mesh Mesh::with_experts(int size) const {
  const int line = this->size(Axis::dp_cp);
  check_division({.flags = fmt::format("--ep {}", size),
                  .whole = line,
                  .items = "ranks of dp and cp",
                  .by = size,
                  .into = fmt::format("equal groups of {}", size)},
                 [&] { return nearest_divisors("--ep", line, size); });
  Mesh mesh = *this;
  mesh.experts_ = size;
  return mesh;
}

namespace {

const std::vector<Axis> replica_axes{Axis::dp, Axis::cp};

}  // namespace

int Mesh::size(Axis axis) const {
  switch (axis) {
    case Axis::ep:
      return experts_;
    case Axis::edp:
      return size(Axis::dp_cp) / experts_;
    case Axis::dp_cp:
      return size(Axis::dp) * size(Axis::cp);
    default:
      return sizes_[static_cast<std::size_t>(axis)];
  }
}

int Mesh::stride(Axis axis) const {
  int stride = 1;
  for (Axis each : order_) {
    if (each == axis) break;
    stride *= size(each);
  }
  return stride;
}

int Mesh::coordinate(int rank, Axis axis) const {
  switch (axis) {
    case Axis::ep:
      return place_on_line(rank, replica_axes) % experts_;
    case Axis::edp:
      return place_on_line(rank, replica_axes) / experts_;
    case Axis::dp_cp:
      return place_on_line(rank, replica_axes);
    default:
      return rank / stride(axis) % size(axis);
  }
}

std::vector<int> Mesh::group(int rank, std::initializer_list<Axis> axes) const {
  if (axes.size() == 1) {
    const Axis axis = *axes.begin();
    if (axis == Axis::dp_cp) return line(rank, replica_axes);
    if (axis == Axis::ep || axis == Axis::edp) {
      const std::vector<int> all = line(rank, replica_axes);
      // Neighbours hold different experts; every ep-th rank holds the same ones.
      const int stride = axis == Axis::ep ? 1 : experts_;
      const int first =
          axis == Axis::ep ? coordinate(rank, Axis::edp) * experts_ : coordinate(rank, Axis::ep);
      std::vector<int> members;
      for (int i = 0; i < size(axis); ++i)
        members.push_back(all[static_cast<std::size_t>(first + i * stride)]);
      return members;
    }
  }
  return line(rank, axes);
}

std::vector<int> Mesh::line(int rank, const std::vector<Axis>& axes) const {
  std::vector<int> members{rank};
  for (const Axis axis : order_) {  // from the innermost outwards, so that the members ascend
    if (std::ranges::find(axes, axis) == axes.end()) continue;
    const int back = coordinate(rank, axis) * stride(axis);
    std::vector<int> more;
    for (int i = 0; i < size(axis); ++i)
      for (const int member : members) more.push_back(member - back + i * stride(axis));
    members = std::move(more);
  }
  return members;
}

int Mesh::place_on_line(int rank, const std::vector<Axis>& axes) const {
  int place = 0, before = 1;
  for (const Axis axis : order_) {
    if (std::ranges::find(axes, axis) == axes.end()) continue;
    place += coordinate(rank, axis) * before;
    before *= size(axis);
  }
  return place;
}

std::string Mesh::json() const {
  std::string text;
  for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep})
    if (size(axis) > 1)
      text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name_of(axis), size(axis));
  return "{" + text + "}";
}

}  // namespace lockstep
