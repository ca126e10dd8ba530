#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Computes a layer, which takes time, with all of its parameters.
using Forward = std::function<void(int layer, std::span<const float> parameters)>;

/// Runs all layers once, layer 0 first; there is at least one. Layer i has sizes[i] parameters, at
/// least 1. shards[i] contains this rank's chunk of them, chunk(parameters, rank, N), which may be
/// empty if the layer is small.
///
/// Called on every rank. Each layer is gathered by one all-gather, into memory from
/// world.allocate(), and discarded after its use. While a layer computes, the next one is gathered,
/// but never more: besides the shards, there are at most two adjacent whole layers in memory.
void forward_pass(World& world, const std::vector<int>& sizes, const std::vector<Buffer>& shards,
                  const Forward& forward);

}  // namespace lockstep::exercises
