#pragma once

/// Replaces the few parts of CUB that kernels use, with the same interface and the same order of
/// additions: a tree of downward shuffles within each warp, then the warps' sums in order.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <source_location>
#include <span>
#include <vector>

#include "emulator/device.h"

namespace emulator {

/// Shared memory that a collective operation borrows. Using it twice with no barrier in between is
/// a race and is reported as an error.
struct Borrowed {
  std::uint64_t used_after;  ///< number of barriers passed before the last use

  void use(std::source_location at) {
    if (used_after == barriers_passed())
      fail("this TempStorage was used before, and no __syncthreads since", at);
    used_after = barriers_passed();
  }
};

/// A thread's input to a reduction, and the result, which only the first thread gets.
template <class T, class Combine>
struct Reduction {
  T value;
  Combine combine;
  Borrowed* storage;
  std::source_location at;
  T result;

  /// Combines lane i with lane i + 1, then with i + 2, i + 4, ...
  static T fold(void* const* lanes, std::size_t count) {
    T value[32];
    for (std::size_t i = 0; i < count; ++i)
      value[i] = static_cast<const Reduction*>(lanes[i])->value;
    const Combine combine = static_cast<const Reduction*>(lanes[0])->combine;
    for (std::size_t step = 1; step < count; step *= 2)
      for (std::size_t i = 0; i + step < count; ++i) value[i] = combine(value[i], value[i + step]);
    return value[0];
  }

  static void finish(std::span<void* const> threads) {
    if (std::find(threads.begin(), threads.end(), nullptr) != threads.end())
      fail("a block reduction that a thread has returned before", std::source_location::current());
    auto& first = *static_cast<Reduction*>(threads[0]);
    first.storage->use(first.at);
    for (std::size_t warp = 0; warp < threads.size(); warp += 32) {
      const T part = fold(threads.data() + warp, std::min<std::size_t>(32, threads.size() - warp));
      first.result = warp == 0 ? part : first.combine(first.result, part);
    }
  }
};

}  // namespace emulator

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_WARP_REDUCTIONS };

template <class T, int threads, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS>
class BlockReduce {
 public:
  using TempStorage = emulator::Borrowed;

  explicit BlockReduce(TempStorage& storage) : storage_(storage) {}

  /// The result is valid only in thread 0; the other threads get NaN.
  template <class Combine>
  T Reduce(T value, Combine combine, std::source_location at = std::source_location::current()) {
    if (blockDim.x * blockDim.y * blockDim.z != threads)
      emulator::fail("BlockReduce is for another number of threads than the block has", at);
    using Reduction = emulator::Reduction<T, Combine>;
    Reduction mine{value, combine, &storage_, at, value};
    std::memset(static_cast<void*>(&mine.result), 0xff, sizeof(T));
    emulator::block_collective(&mine, &Reduction::finish, at);
    return mine.result;
  }
  T Sum(T value, std::source_location at = std::source_location::current()) {
    return Reduce(
        value, [](const T& a, const T& b) { return a + b; }, at);
  }

 private:
  TempStorage& storage_;
};

template <class T, int width = 32>
class WarpReduce {
 public:
  static_assert(width == 32, "whole warps");
  struct TempStorage {
    char nothing;
  };

  explicit WarpReduce(TempStorage&) {}

  /// The result is valid only in lane 0; the other lanes get NaN.
  template <class Combine>
  T Reduce(T value, Combine combine, std::source_location at = std::source_location::current()) {
    using Reduction = emulator::Reduction<T, Combine>;
    Reduction mine{value, combine, nullptr, at, value};
    std::memset(static_cast<void*>(&mine.result), 0xff, sizeof(T));
    emulator::warp_collective(
        0xffffffffU, &mine,
        [](unsigned, void* const* lanes) {
          static_cast<Reduction*>(lanes[0])->result = Reduction::fold(lanes, 32);
        },
        at);
    return mine.result;
  }
  T Sum(T value, std::source_location at = std::source_location::current()) {
    return Reduce(
        value, [](const T& a, const T& b) { return a + b; }, at);
  }
};

struct DeviceRadixSort {
  /// Sorts stably by bits [begin, end) of the keys.
  template <class Key, class Value, class Count>
  static cudaError_t SortPairs(void* storage, std::size_t& bytes, const Key* keys, Key* keys_out,
                               const Value* values, Value* values_out, Count n, int begin = 0,
                               int end = 8 * sizeof(Key), cudaStream_t stream = nullptr) {
    if (storage == nullptr) {
      bytes = 1;
      return cudaSuccess;
    }
    emulator::enqueue(stream, [=] {
      const auto count = static_cast<std::size_t>(n);
      const auto part = [=](Key key) {
        const auto bits = static_cast<std::uint64_t>(key);
        return (bits >> begin) & ((std::uint64_t{1} << (end - begin)) - 1);
      };
      std::vector<std::size_t> order(count);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return part(keys[a]) < part(keys[b]); });
      for (std::size_t i = 0; i < count; ++i) {
        keys_out[i] = keys[order[i]];
        values_out[i] = values[order[i]];
      }
    });
    return cudaSuccess;
  }
};

}  // namespace cub
