#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Gathers one block from each rank. `mine` is this rank's block; all blocks have the same size n.
/// `all` has world.size() * n numbers. On return, numbers [r n, (r + 1) n) of `all` are rank r's
/// block.
///
/// Called on every rank. Each rank sends N - 1 blocks. The ring may run in either direction.
void gather_blocks(World& world, std::span<const float> mine, std::span<float> all);

}  // namespace lockstep::exercises
