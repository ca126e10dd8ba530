#pragma once

#include "exercises/frame/world.h"

/// The collectives, for exercises that build on them. An exercise whose task.h includes this header
/// is linked with them; the others are not. All ranks of a world call the same collectives, with
/// the same sizes, in the same order. Each starts when this rank's computation reaches the call,
/// and overlaps with the computation until the Work's wait(). The collectives of one world run one
/// after another. Until wait(), only a later collective of the same world may use `data` or a part
/// of it. chunk() defines the chunks.
namespace lockstep::exercises {

using Where = std::source_location;

/// Leaves the sum over all ranks in every rank's `data`: two times N - 1 rounds of a ring.
Work all_reduce(World& world, std::span<float> data, Where where = Where::current());
/// Leaves the sum of chunk r over all ranks in chunk r of rank r's `data`, and partial sums in the
/// other chunks: N - 1 rounds.
Work reduce_scatter(World& world, std::span<float> data, Where where = Where::current());
/// Copies chunk r of rank r's `data` to every rank, for all r: N - 1 rounds.
Work all_gather(World& world, std::span<float> data, Where where = Where::current());
/// Copies the root's `data` to every rank.
Work broadcast(World& world, std::span<float> data, int root, Where where = Where::current());
/// Sends `send_counts[i]` numbers of `out` to rank i, rank by rank, and receives
/// `receive_counts[i]` numbers from rank i into `in`, in the same way.
Work all_to_all(World& world, std::span<const float> out, const std::vector<int>& send_counts,
                std::span<float> in, const std::vector<int>& receive_counts,
                Where where = Where::current());

}  // namespace lockstep::exercises
