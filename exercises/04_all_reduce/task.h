#pragma once

#include "exercises/frame/world.h"

namespace lockstep::exercises {

/// Given: the ring reduce-scatter of exercise 03. On return, chunk(data, r, N) of rank r's `data`
/// is the sum of that chunk over all N ranks, and the other chunks may contain anything.
void reduce_scatter(World& world, std::span<float> data);

/// A ring all-gather. On entry, rank r has the right numbers only in chunk r of `data`,
/// chunk(data, r, world.size()). On return, every rank has the right numbers in all chunks.
///
/// Called on every rank with the same number of elements. N need not divide this number: the sizes
/// of chunks differ by at most one. There are N - 1 rounds. In each, every rank sends one chunk to
/// one neighbour and receives another from the other neighbour at the same time, so a round takes
/// as long as one message.
void all_gather(World& world, std::span<float> data);

/// A ring all-reduce: leaves the sum over all ranks in every rank's `data`, in 2 (N - 1) such
/// rounds.
void all_reduce(World& world, std::span<float> data);

}  // namespace lockstep::exercises
