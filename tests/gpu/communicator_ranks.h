#pragma once

/// Ranks in threads, each with its own GPU and connected by a communicator, and values for the
/// ranks to send.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <latch>

#include "kernels/element.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/portion.h"

namespace lockstep::test {

/// One rank and its resources.
struct Rank {
  int index;
  Gpu& gpu;
  GpuCommunicator& world;
  Scope& scope;
  Queue queue;
  std::mt19937& random;
  const std::vector<std::byte>& second_id;

  /// Creates a second communicator of the same ranks.
  std::unique_ptr<GpuCommunicator> second() const {
    return gpu.join(second_id, world.size(), index, nullptr);
  }
  void dawdle() const { std::this_thread::sleep_for(std::chrono::microseconds{random() % 500}); }
};

inline void on_ranks(int ranks, const std::function<void(const Rank&)>& work) {
  const std::vector<std::byte> id = library().open(0)->make_communicator_id();
  const std::vector<std::byte> second_id = library().open(0)->make_communicator_id();
  CHECK(id.size() == 128);
  on_threads(ranks, [&](int index) {
    const auto gpu = library().open(index);
    const auto world = gpu->join(id, ranks, index, nullptr);
    CHECK(world->rank() == index);
    CHECK(world->size() == ranks);
    Scope scope{*gpu};
    std::mt19937 random{static_cast<unsigned>(index)};
    work({index, *gpu, *world, scope, scope.queue(), random, second_id});
  });
}

/// Returns the numbers of ranks that a case runs with, up to 4, the largest first. NCCL can take
/// seconds to create a communicator, so without all_cases() there are only two.
inline std::vector<int> rank_counts() {
  std::vector<int> counts;
  for (int ranks = std::min(4, gpus()); ranks >= 1; --ranks) counts.push_back(ranks);
  return testing::portion(counts, 2);
}

/// Small integers, whose sums are exact in every type and in any order.
inline int value(int rank, int i, int seed) {
  return (17 * rank + 5 * i + seed) % 23 - 11;
}
using Values = std::vector<int>;
inline Values values(int rank, int count, int seed) {
  Values all;
  for (int i = 0; i < count; ++i) all.push_back(value(rank, i, seed));
  return all;
}
inline Values sum_of(int ranks, int count, int seed) {
  Values sum(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank)
    for (int i = 0; i < count; ++i) sum[static_cast<std::size_t>(i)] += value(rank, i, seed);
  return sum;
}

inline void write(void* data, std::size_t i, DType dtype, int x) {
  switch (dtype) {
    case DType::f32:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    case DType::i32:
      static_cast<std::int32_t*>(data)[i] = x;
      break;
    case DType::bf16:
      static_cast<std::uint16_t*>(data)[i] = element::to_bf16(static_cast<float>(x));
      break;
    case DType::f16:
      static_cast<std::uint16_t*>(data)[i] = element::to_f16(static_cast<float>(x));
      break;
  }
}
inline int read(const void* data, std::size_t i, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<int>(static_cast<const float*>(data)[i]);
    case DType::i32:
      return static_cast<const std::int32_t*>(data)[i];
    case DType::bf16:
      return static_cast<int>(element::from_bf16(static_cast<const std::uint16_t*>(data)[i]));
    case DType::f16:
      return static_cast<int>(element::from_f16(static_cast<const std::uint16_t*>(data)[i]));
  }
  return 0;
}

/// Returns a View of GPU memory that the rank's queue fills with the numbers in `all`.
inline View on_gpu(const Rank& rank, const Values& all, DType dtype = DType::f32) {
  std::vector<std::byte> host(all.size() * size_of(dtype));
  for (std::size_t i = 0; i < all.size(); ++i) write(host.data(), i, dtype, all[i]);
  void* data = rank.scope.device<std::byte>(std::max<std::size_t>(host.size(), 1), rank.queue);
  rank.gpu.copy(rank.queue, data, host.data(), host.size());
  return View{data, Shape{static_cast<std::int64_t>(all.size())}, dtype};
}
inline Values from_gpu(const Rank& rank, View view) {
  auto* host = rank.scope.pinned<std::byte>(view.bytes());
  rank.gpu.copy(rank.queue, host, view.data, view.bytes());
  finish(rank.gpu, rank.queue);
  Values all(static_cast<std::size_t>(view.elements()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = read(host, i, view.dtype);
  return all;
}
/// Returns a rank's chunk of `all`.
inline View chunk(View all, int rank, int ranks) {
  const std::int64_t count = all.elements() / ranks;
  return View{static_cast<std::byte*>(all.data) +
                  static_cast<std::size_t>(count * rank) * size_of(all.dtype),
              Shape{count}, all.dtype};
}
inline Values slice(const Values& all, int rank, int ranks) {
  const auto count = static_cast<std::ptrdiff_t>(all.size()) / ranks;
  return {all.begin() + rank * count, all.begin() + (rank + 1) * count};
}

}  // namespace lockstep::test
