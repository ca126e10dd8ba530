#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// A ring reduce-scatter. `data` is divided into world.size() chunks: chunk(data, i, world.size()),
/// whose sizes differ by at most one. On return, chunk world.rank() of this rank's `data` is the
/// sum of that chunk over all ranks. The other chunks may contain anything.
///
/// Called on every rank with the same number of elements. Each rank sends N - 1 messages of one
/// chunk each, to one neighbour: no rank ever sends all of `data`.
void reduce_scatter(World& world, std::span<float> data);

}  // namespace lockstep::exercises
