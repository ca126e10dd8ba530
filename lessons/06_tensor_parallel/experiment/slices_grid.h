#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "lessons/06_tensor_parallel/tensor_parallel.h"

namespace lockstep {

/// Returns whether the slice stores the element (row, column); a vector has one row.
inline bool holds(const Slice& slice, std::int64_t row, std::int64_t column) {
  return std::ranges::any_of(slice.pieces(), [&](const Slice::Piece& piece) {
    const auto inside = [&](int dimension, std::int64_t at) {
      const std::int64_t begin = piece.box.begin[static_cast<std::size_t>(dimension)];
      return at >= begin && at < begin + piece.box.extent[dimension];
    };
    const bool matrix = piece.box.extent.rank() == 2;
    return (!matrix || inside(0, row)) && inside(matrix ? 1 : 0, column);
  });
}

/// Draws a parameter, whose slices the ranks of one tensor-parallel group hold: each character is
/// the coordinate of the rank that holds this part of the parameter, or * if all ranks hold it. A
/// matrix cut into rows has a line per rank.
inline std::vector<std::string> drawing(const ParameterSpec& spec,
                                        const std::vector<Slice>& slices) {
  const int t = static_cast<int>(slices.size());
  const bool matrix = spec.shape.rank() == 2;
  const bool rows = matrix && !spec.cuts.empty() && spec.cuts.front().dimension == 0;
  const std::int64_t height = rows ? t : 1;
  const std::int64_t width = (24 + 3 * t - 1) / (3 * t) * (3 * t);  // for q, k and v
  std::vector<std::string> lines;
  for (std::int64_t line = 0; line < height; ++line) {
    std::string& text = lines.emplace_back();
    for (std::int64_t at = 0; at < width; ++at) {
      // The element in the middle of the part that the character stands for.
      const std::int64_t row = matrix ? (2 * line + 1) * spec.shape[0] / (2 * height) : 0;
      const std::int64_t column = (2 * at + 1) * spec.shape.last() / (2 * width);
      std::vector<int> holders;
      for (int rank = 0; rank < t; ++rank)
        if (holds(slices[static_cast<std::size_t>(rank)], row, column)) holders.push_back(rank);
      text += static_cast<int>(holders.size()) == t ? '*'
              : holders.size() == 1                 ? "0123456789abcdef"[holders.front()]
                                                    : '?';
    }
  }
  return lines;
}

/// Returns a line that says how far the vocabulary is padded, or "".
inline std::string padding_line(const Plan& plan) {
  const int t = plan.mesh.size(Axis::tp);
  const int vocabulary = plan.model().vocabulary;
  if (vocabulary % t == 0) return "";
  return fmt::format(
      "  vocabulary padded from {} to {} tokens, a multiple of --tp {}: no token uses the padding, "
      "and its gradient is 0\n",
      vocabulary, t * part_of(vocabulary, t), t);
}

/// Returns which slices of which parameters each rank of rank 0's tensor-parallel group holds: a
/// drawing of the embedding, the first block and the head.
inline std::string slices_grid(const Plan& plan) {
  const std::vector<int> ranks = plan.mesh.group(0, Axis::tp);
  const int t = static_cast<int>(ranks.size());
  const GptConfig& config = plan.model();
  std::string text = padding_line(plan);
  constexpr int most = 16;
  if (t > most) return text + fmt::format("  (slices are drawn for at most {} ranks)\n", most);
  text += fmt::format("  who holds what: {}* all of them\n", [&] {
    std::string key;
    for (int i = 0; i < t; ++i)
      key +=
          fmt::format("{:x} {}, ", i, fmt::format("rank {}", ranks[static_cast<std::size_t>(i)]));
    return key;
  }());

  std::vector<Place> places;
  for (const int rank : ranks) places.push_back(plan.place(rank));
  for (std::size_t p = 0; p < plan.parameters().size(); ++p) {
    const ParameterSpec& spec = plan.parameters()[p];
    if (spec.unit() > 1 && spec.unit() <= config.layers) continue;  // as in the first block
    std::vector<Slice> slices;
    for (const Place& place : places)
      for (const Held& held : place.held)
        if (held.parameter == static_cast<int>(p)) {
          slices.push_back(held.slice);
          break;
        }
    if (static_cast<int>(slices.size()) != t) continue;  // on another stage
    std::string name = spec.name;
    for (const char* prefix : {"transformer.", "h.0."})
      if (name.starts_with(prefix)) name.erase(0, std::string{prefix}.size());
    std::string shape = spec.shape.rank() == 2
                            ? fmt::format("{} x {}", spec.shape[0], spec.shape[1])
                            : fmt::format("{}", spec.shape[0]);
    for (const std::string& line : drawing(spec, slices)) {
      text += fmt::format("  {:<20} {:>14}   {}\n", name, shape, line);
      name.clear();
      shape.clear();
    }
  }
  return text;
}

inline void print_slices(const Plan& plan) {
  fmt::print("\n{}\n", slices_grid(plan));
}

}  // namespace lockstep
