#include "core/plan/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"

namespace lockstep {

namespace {

constexpr Axis all_axes[] = {Axis::tp, Axis::cp, Axis::dp, Axis::pp};

std::array<Axis, axis_count> parse_order(const std::string& text) {
  std::array<Axis, axis_count> order{};
  std::array<bool, axis_count> seen{};
  std::istringstream parts{text};
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

/// Returns the numbers of ranks nearest to `ranks` that axes whose sizes have this product can
/// have, with or without an axis that takes the ranks that remain.
std::string ranks_that_work(int ranks, int product, bool with_rest) {
  const int fewer = ranks / product * product;
  if (!with_rest || fewer == 0) return fmt::format("--ranks {}", product);
  return fmt::format("--ranks {} or --ranks {}", fewer, fewer + product);
}

}  // namespace

const char* name_of(Axis axis) {
  constexpr const char* names[] = {"tp", "cp", "dp", "pp", "ep"};
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
      if (size > 1) asked += fmt::format(" --{} {}", name_of(axis), size);
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

Mesh Mesh::with_experts(int size, ExpertsWithin within) const {
  const int line = within == ExpertsWithin::tp ? this->size(Axis::tp)
                                               : this->size(Axis::dp) * this->size(Axis::cp);
  if (size < 1 || line % size != 0)
    throw UsageError(fmt::format(
        "--ep {}: experts are divided among the {} ranks of {}; the size must divide {}", size,
        line, within == ExpertsWithin::tp ? "tp" : "dp and cp", line));
  Mesh mesh = *this;
  mesh.experts_ = size;
  mesh.within_ = within;
  return mesh;
}

int Mesh::size(Axis axis) const {
  return axis == Axis::ep ? experts_ : sizes_[static_cast<std::size_t>(axis)];
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
  if (axis == Axis::ep) return place_on_expert_line(rank) % experts_;
  return rank / stride(axis) % size(axis);
}

std::vector<int> Mesh::group(int rank, std::initializer_list<Axis> axes) const {
  if (axes.size() == 1 && *axes.begin() == Axis::ep) {
    const std::vector<int> line = expert_line(rank);
    const auto first = line.begin() + place_on_expert_line(rank) / experts_ * experts_;
    return {first, first + experts_};
  }
  std::vector<int> members{rank};
  for (const Axis axis : order_) {  // from the innermost outwards, so that the members ascend
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) continue;
    const int back = coordinate(rank, axis) * stride(axis);
    std::vector<int> more;
    for (int i = 0; i < size(axis); ++i)
      for (const int member : members) more.push_back(member - back + i * stride(axis));
    members = std::move(more);
  }
  return members;
}

std::vector<int> Mesh::expert_line(int rank) const {
  return within_ == ExpertsWithin::tp ? group(rank, {Axis::tp}) : group(rank, {Axis::dp, Axis::cp});
}

int Mesh::place_on_expert_line(int rank) const {
  if (within_ == ExpertsWithin::tp) return coordinate(rank, Axis::tp);
  int place = 0, stride = 1;
  for (const Axis axis : order_) {
    if (axis != Axis::dp && axis != Axis::cp) continue;
    place += coordinate(rank, axis) * stride;
    stride *= size(axis);
  }
  return place;
}

std::vector<int> Mesh::replicas_of_experts(int rank) const {
  const std::vector<int> line = expert_line(rank);
  std::vector<int> replicas;
  for (std::size_t i = static_cast<std::size_t>(coordinate(rank, Axis::ep)); i < line.size();
       i += static_cast<std::size_t>(experts_))
    replicas.push_back(line[i]);
  return replicas;
}

std::string Mesh::json() const {
  std::string text;
  for (const Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::ep})
    if (size(axis) > 1)
      text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name_of(axis), size(axis));
  return "{" + text + "}";
}

}  // namespace lockstep
