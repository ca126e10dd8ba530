#include "core/comm/mesh.h"

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
        "--order {}: wants tp, cp, dp and pp, each once, from the innermost: such as tp,cp,dp,pp",
        text));
  return order;
}

}  // namespace

const char* name_of(Axis axis) {
  constexpr const char* names[axis_count] = {"tp", "cp", "dp", "pp"};
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
  if (product != ranks)
    throw UsageError(
        fmt::format("--ranks {}{}: {} ranks can't be laid out so; the sizes must {} {}", ranks,
                    asked, ranks, open > 0 ? "divide" : "multiply to", ranks));
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
  return rank / stride(axis) % size(axis);
}

std::vector<int> Mesh::group(int rank, Axis axis) const {
  const int first = rank - coordinate(rank, axis) * stride(axis);
  std::vector<int> members;
  for (int i = 0; i < size(axis); ++i) members.push_back(first + i * stride(axis));
  return members;
}

std::string Mesh::json() const {
  std::string text;
  for (Axis axis : {Axis::pp, Axis::dp, Axis::cp, Axis::tp})
    if (size(axis) > 1)
      text += fmt::format("{}\"{}\":{}", text.empty() ? "" : ",", name_of(axis), size(axis));
  return "{" + text + "}";
}

}  // namespace lockstep
