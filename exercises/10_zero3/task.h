#pragma once

#include <functional>

#include "exercises/frame/collectives.h"
#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Computes a layer, which takes time, with all of its parameters.
using Forward = std::function<void(int layer, std::span<const float> parameters)>;

/// Runs each layer once, layer 0 first. There is at least one layer. Layer i has sizes[i]
/// parameters, at least 1. shards[i] contains this rank's chunk of them,
/// chunk(parameters, rank, N), which may be empty if the layer is small.
///
/// Called on every rank. Each layer is gathered by one all-gather, into memory from
/// world.allocate(), and discarded after its use. While a layer computes, only the next one is
/// gathered: besides the shards, memory holds at most two whole layers, which are adjacent.
void forward_pass(World& world, const std::vector<int>& sizes, const std::vector<Buffer>& shards,
                  const Forward& forward);

}  // namespace lockstep::exercises
