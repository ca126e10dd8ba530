#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "core/device/block_pool.h"

using namespace lockstep;

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif

constexpr std::size_t KiB = 1024;

}  // namespace

TEST_CASE("a step that takes the same blocks as the step before it takes none from the system") {
  if (!keeps_blocks) return;
  BlockPool pool;
  const std::size_t sizes[] = {3 * KiB, 300 * KiB, 300 * KiB, 40, 1000 * KiB};
  std::vector<std::vector<void*>> steps;
  for (int step = 0; step < 3; ++step) {
    std::vector<void*>& blocks = steps.emplace_back();
    for (const std::size_t size : sizes) blocks.push_back(pool.take(size));
    for (std::size_t i = 0; i < blocks.size(); ++i) pool.give_back(blocks[i], sizes[i]);
    std::ranges::sort(blocks);
  }
  CHECK(steps[1] == steps[0]);
  CHECK(steps[2] == steps[0]);
}

TEST_CASE("used and idle blocks are within a sixteenth of the peak of the used ones") {
  std::mt19937 random{11};
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 20; ++round) {
    BlockPool pool;
    std::vector<std::pair<unsigned char*, std::size_t>> alive;
    std::size_t used = 0, peak = 0;
    for (int i = 0; i < 500; ++i) {
      if (below(2) == 0 || alive.empty()) {
        const std::size_t size = 4 * KiB * (1 + below(100));
        auto* block = static_cast<unsigned char*>(pool.take(size));
        block[0] = block[size - 1] = static_cast<unsigned char>(size / KiB);
        alive.emplace_back(block, size);
        peak = std::max(peak, used += size);
      } else {
        std::swap(alive[below(alive.size())], alive.back());
        const auto [block, size] = alive.back();
        alive.pop_back();
        REQUIRE(block[0] == static_cast<unsigned char>(size / KiB));
        REQUIRE(block[size - 1] == block[0]);
        pool.give_back(block, size);
        used -= size;
      }
      REQUIRE(pool.used() == used);
      REQUIRE(pool.used() + pool.idle() <= peak + peak / 16);
    }
    pool.release_idle();
    CHECK(pool.idle() == 0);
    for (const auto& [block, size] : alive) pool.give_back(block, size);
    CHECK(pool.used() == 0);
  }
}

TEST_CASE("what has been idle for longest goes first, and a new peak bounds what stays") {
  if (!keeps_blocks) return;
  BlockPool pool;
  void* const first = pool.take(200 * KiB);
  void* const second = pool.take(400 * KiB);
  void* const third = pool.take(1000 * KiB);
  for (const auto& [block, kilobytes] : {std::pair{second, 400}, {first, 200}, {third, 1000}})
    pool.give_back(block, static_cast<std::size_t>(kilobytes) * KiB);
  CHECK(pool.idle() == 1600 * KiB);
  void* const other = pool.take(404 * KiB);  // 100 KiB are free of the bound: one block has to go
  CHECK(pool.idle() == 1200 * KiB);
  CHECK(pool.take(200 * KiB) == first);
  CHECK(pool.take(1000 * KiB) == third);
  pool.give_back(first, 200 * KiB);
  pool.give_back(third, 1000 * KiB);
  pool.reset_peak();  // 404 KiB are in use
  CHECK(pool.idle() == 1200 * KiB);
  void* const small = pool.take(8 * KiB);
  CHECK(pool.idle() == 0);
  pool.give_back(small, 8 * KiB);
  pool.give_back(other, 404 * KiB);
}
