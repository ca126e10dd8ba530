#include "core/plan/batch.h"

#include <fmt/format.h>

#include <numeric>

#include "core/plan/divisions.h"

namespace lockstep {

std::int64_t BatchShape::first() const {
  if (shares.empty()) return std::int64_t{replica} * microbatches * size;
  return std::int64_t{size} * std::accumulate(shares.begin(), shares.begin() + replica, 0);
}

std::int64_t BatchShape::all() const {
  if (shares.empty()) return std::int64_t{replicas} * microbatches * size;
  return std::int64_t{size} * std::accumulate(shares.begin(), shares.end(), 0);
}

std::vector<Positions> context_positions(ContextLayout layout, int sequence, int i, int n) {
  const int chunks = layout == ContextLayout::zigzag ? 2 * n : n;
  check_division({.flags = fmt::format("--sequence {} with --cp {}", sequence, n),
                  .whole = sequence,
                  .items = "positions",
                  .by = chunks,
                  .into = fmt::format("{} equal chunks", chunks)},
                 [&] { return nearest_multiples("--sequence", chunks, sequence); });
  if (layout == ContextLayout::balanced)
    return balanced_positions({sequence}, n)[static_cast<std::size_t>(i)];
  if (layout == ContextLayout::striped) {
    std::vector<Positions> stripes;
    for (int at = i; at < sequence; at += n) stripes.push_back({at, at + 1});
    return stripes;
  }
  const int chunk = sequence / chunks;
  const auto at = [&](int which) { return Positions{which * chunk, (which + 1) * chunk}; };
  if (layout == ContextLayout::contiguous) return {at(i)};
  return {at(i), at(chunks - 1 - i)};
}

std::vector<Positions> context_positions(ContextLayout layout, const Documents& documents, int i,
                                         int n) {
  if (layout == ContextLayout::balanced)
    return balanced_positions(documents, n)[static_cast<std::size_t>(i)];
  return context_positions(layout, std::accumulate(documents.begin(), documents.end(), 0), i, n);
}

}  // namespace lockstep
