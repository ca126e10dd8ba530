#pragma once

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/transport/control.h"
#include "core/device/host_copy.h"
#include "core/run/rank/rank.h"
#include "lessons/01_collectives/experiment/grid.h"
#include "lessons/01_collectives/experiment/timing.h"
#include "lessons/01_collectives/ring_all_reduce.h"

namespace lockstep {

/// Rank r's contribution in every element: a whole number, so that sums are exact in any order.
inline float contribution(int rank, int ranks) {
  return ranks <= Grid::most_ranks ? Grid::contribution(rank) : static_cast<float>(rank + 1);
}

/// Fills `data` with this rank's contribution.
inline void fill_with_contribution(const Rank& rank, View data) {
  if (!data) return;  // the meta device
  Stream& compute = rank.device.compute;
  compute.kernels().fill(compute.queue(), data, contribution(rank.id, rank.count));
}

/// Throws RunError unless every element is the sum of all contributions.
inline void check_sum(const Rank& rank, View data) {
  float sum = 0;
  for (int r = 0; r < rank.count; ++r) sum += contribution(r, rank.count);
  const std::vector<float> values = to_host(rank.device, data);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != sum)
      throw RunError(fmt::format("rank {}: element {} of the sum is {} instead of {}", rank.id, i,
                                 values[i], sum));
}

/// Fills `data` with noise, whose sums depend on the order of additions.
inline void fill_with_noise(const Rank& rank, View data, std::uint64_t seed) {
  std::minstd_rand random{static_cast<unsigned>(seed * 1009 + static_cast<unsigned>(rank.id) + 1)};
  std::vector<float> values(static_cast<std::size_t>(data.elements()));
  for (float& value : values) value = static_cast<float>(random()) / 2147483648.0F - 0.5F;
  from_host(rank.device, values, data);
}

/// Sums noise with `ours` and with Group::all_reduce's ring. Throws RunError unless the results are
/// bitwise identical on all ranks and, with `like_the_group`, also bitwise identical to those of
/// Group's ring. All ranks must call this.
inline void check_bits(Rank& rank, Group& group, View data, std::uint64_t seed, bool like_the_group,
                       const std::function<void(View)>& ours) {
  fill_with_noise(rank, data, seed);
  Tensor theirs{rank.memory, data.shape, MemoryCategory::communication};
  fill_with_noise(rank, theirs, seed);
  start_together(rank);  // the ranks have exchanged results, which takes no modelled time
  ours(data);
  group.all_reduce(theirs, Algorithm::ring).wait();
  const std::vector<float> sums = to_host(rank.device, data);
  if (like_the_group &&
      std::memcmp(to_host(rank.device, theirs).data(), sums.data(), data.bytes()) != 0)
    throw RunError(
        fmt::format("rank {}: the sum has other bits than that of Group::all_reduce", rank.id));

  const std::string_view bytes{reinterpret_cast<const char*>(sums.data()), data.bytes()};
  const std::string mine = std::to_string(std::hash<std::string_view>{}(bytes));
  if (broadcast_from_root(*rank.transport, mine) != mine)
    throw RunError(fmt::format("rank {}: the sum has other bits than on rank 0", rank.id));
}

/// Prints the result of the checks above.
inline void print_proof(bool computes, bool like_the_group) {
  if (!computes)
    return fmt::print(
        "\nthe meta device computes nothing, so there is no sum to check and no grid to draw\n");
  fmt::print("\nproof: every sum is exact, and all ranks hold the same bits{}\n",
             like_the_group ? ", which are those of Group::all_reduce" : "");
}

}  // namespace lockstep
