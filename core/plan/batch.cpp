#include "core/plan/batch.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace lockstep {

std::vector<Positions> context_positions(ContextLayout layout, int sequence, int i, int n) {
  const int chunks = layout == ContextLayout::zigzag ? 2 * n : n;
  if (sequence % chunks != 0) {
    const int shorter = sequence / chunks * chunks;
    throw UsageError(fmt::format(
        "--sequence {} with --cp {}: {} positions do not divide into {} equal chunks; use "
        "{}--sequence {}",
        sequence, n, sequence, chunks, shorter > 0 ? fmt::format("--sequence {} or ", shorter) : "",
        shorter + chunks));
  }
  const int chunk = sequence / chunks;
  const auto at = [&](int which) { return Positions{which * chunk, (which + 1) * chunk}; };
  if (layout == ContextLayout::contiguous) return {at(i)};
  return {at(i), at(chunks - 1 - i)};
}

}  // namespace lockstep
