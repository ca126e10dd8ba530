#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
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

constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;

}  // namespace

TEST_CASE("a step that takes the same blocks as the previous step takes none from the system") {
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

TEST_CASE("used and idle blocks exceed the peak of used bytes by a bounded amount") {
  std::mt19937 random{11};
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  for (int round = 0; round < 20; ++round) {
    BlockPool pool;
    std::vector<std::pair<unsigned char*, std::size_t>> alive;
    std::size_t used = 0, peak = 0;
    const auto mark_of = [](std::size_t size) {
      return static_cast<unsigned char>(size / KiB / 4);
    };
    const auto places = [](std::size_t size) {
      return std::array{std::size_t{0}, size / 3, size - 1};
    };
    for (int i = 0; i < 500; ++i) {
      if (below(2) == 0 || alive.empty()) {
        const std::size_t size = 4 * KiB * (1 + below(100)) * (below(3) == 0 ? 1 : 64);
        auto* block = static_cast<unsigned char*>(pool.take(size));
        REQUIRE(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
        for (const std::size_t place : places(size)) block[place] = mark_of(size);
        alive.emplace_back(block, size);
        peak = std::max(peak, used += size);
      } else {
        std::swap(alive[below(alive.size())], alive.back());
        const auto [block, size] = alive.back();
        alive.pop_back();
        for (const std::size_t place : places(size)) REQUIRE(block[place] == mark_of(size));
        pool.give_back(block, size);
        used -= size;
      }
      REQUIRE(pool.used() == used);
      REQUIRE(pool.used() + pool.idle() <= peak + std::max(peak / 32, 4 * MiB));
    }
    pool.release_idle();
    CHECK(pool.idle() == 0);
    for (const auto& [block, size] : alive) pool.give_back(block, size);
    CHECK(pool.used() == 0);
  }
}

TEST_CASE("the pool gives up the block idle longest first, and reset_peak lowers the bound") {
  if (!keeps_blocks) return;
  BlockPool pool;
  void* const first = pool.take(20 * MiB);
  void* const second = pool.take(40 * MiB);
  void* const third = pool.take(100 * MiB);
  std::memset(second, 7, 40 * MiB);
  pool.give_back(second, 40 * MiB);
  pool.give_back(first, 20 * MiB);
  pool.give_back(third, 100 * MiB);
  CHECK(pool.idle() == 160 * MiB);
  // At most 160 + 5 - 41 MiB may stay idle, so the new block takes over the pages of `second`,
  // which has been idle longest.
  auto* const other = static_cast<unsigned char*>(pool.take(41 * MiB));
  CHECK(pool.idle() == 120 * MiB);
  CHECK(other[0] == 7);
  CHECK(other[40 * MiB - 1] == 7);
  CHECK(other[40 * MiB] == 0);
  CHECK(pool.take(20 * MiB) == first);
  CHECK(pool.take(100 * MiB) == third);
  pool.give_back(first, 20 * MiB);
  pool.give_back(third, 100 * MiB);
  pool.reset_peak();
  CHECK(pool.idle() == 120 * MiB);
  void* const small = pool.take(8 * KiB);
  CHECK(pool.idle() == 0);
  pool.give_back(small, 8 * KiB);
  pool.give_back(other, 41 * MiB);
}
