#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// One of the experts that the router has chosen for a token, and the weight of its result.
struct Choice {
  int expert = 0;
  float weight = 0;
};

/// The experts of one rank. There are E of them on N ranks, and N divides E: rank r holds experts r
/// E/N ... (r + 1) E/N - 1.
struct Experts {
  int E = 0;      ///< on all ranks together
  int width = 0;  ///< of a token's row: h numbers
  /// Replaces each of these rows by the result of one of this rank's experts. Each row has h
  /// numbers, and the rows follow one another.
  std::function<void(int expert, std::span<float> rows)> apply;
};

/// Replaces this rank's tokens, a row of h numbers each, by the layer's outputs. The choices for
/// token t are choices[2 t] and choices[2 t + 1], two different experts, and its output is
/// weight · (result of expert), summed over both. (The weights need not add up to 1.)
///
/// Called on every rank. Ranks have different numbers of tokens, possibly 0, and know only their
/// own choices. Each expert that any token has chosen is applied exactly once, on its rank, to the
/// rows of all tokens that have chosen it, in any order. An expert without tokens need not be
/// applied.
///
/// A rank sends at most h numbers for each of its choices whose expert is on another rank, h
/// numbers for each result of its experts that belongs to another rank's token, and E/N more
/// numbers to each other rank.
void mixture_of_experts(World& world, const Experts& experts, std::span<const Choice> choices,
                        std::span<float> tokens);

}  // namespace lockstep::exercises
