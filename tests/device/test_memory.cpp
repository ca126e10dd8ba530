#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "core/device/tensor.h"
#include "core/run/results/process_memory.h"

using namespace lockstep;

TEST_CASE("memory accounting tracks current use and its peak") {
  Memory memory;
  Tensor kept{memory, {4, 8}, MemoryCategory::parameters};
  {
    Tensor brief{memory, {100}, MemoryCategory::activations};
    CHECK(memory.current().of(MemoryCategory::activations) == 400);
    brief.charge_to(MemoryCategory::communication);
    CHECK(memory.current().of(MemoryCategory::activations) == 0);
    CHECK(memory.current().of(MemoryCategory::communication) == 400);
  }
  CHECK(memory.current().total() == 128);
  CHECK(memory.peak().of(MemoryCategory::activations) == 400);
  CHECK(memory.peak().of(MemoryCategory::communication) == 400);
  CHECK(memory.peak_total() == 528);
}

TEST_CASE("the meta device counts and allocates nothing") {
  Memory memory{DeviceKind::meta};
  Tensor huge{memory, {1 << 20, 1 << 20}, MemoryCategory::activations};
  CHECK(static_cast<bool>(huge));
  CHECK(huge.f32() == nullptr);
  CHECK(memory.peak_total() == (std::int64_t{1} << 42));
}

TEST_CASE("shared storage is counted once, until its last owner releases it") {
  Memory memory;
  Tensor first{memory, {10}, MemoryCategory::activations, DType::bf16};
  CHECK(first.bytes() == 20);
  CHECK(first.sole());
  Tensor second = first.share();
  CHECK(second.view().data == first.view().data);
  CHECK(second.shape() == first.shape());
  CHECK(second.dtype() == DType::bf16);
  CHECK_FALSE(first.sole());
  CHECK(memory.current().total() == 20);
  second.charge_to(MemoryCategory::communication);  // applies to the shared storage
  CHECK(memory.current().of(MemoryCategory::activations) == 0);
  CHECK(memory.current().of(MemoryCategory::communication) == 20);
  first.reset();
  CHECK_FALSE(static_cast<bool>(first));
  CHECK(first.elements() == 0);
  CHECK(second.sole());
  CHECK(memory.current().of(MemoryCategory::communication) == 20);
  second.reset();
  CHECK(memory.current().total() == 0);
  second.reset();
  second.charge_to(MemoryCategory::gradients);  // has no effect without storage
  CHECK(memory.current().total() == 0);
  CHECK_FALSE(static_cast<bool>(second.share()));
  CHECK(second.memory() == nullptr);
}

TEST_CASE("moving a tensor moves its charge; the tensor that it replaces is released") {
  Memory memory;
  Tensor a{memory, {8}, MemoryCategory::gradients};
  Tensor b{memory, {16}, MemoryCategory::optimizer};
  void* const data = b.view().data;
  a = std::move(b);
  CHECK(a.view().data == data);
  CHECK(memory.current().of(MemoryCategory::gradients) == 0);
  CHECK(memory.current().of(MemoryCategory::optimizer) == 64);
  Tensor& self = a;
  a = std::move(self);
  CHECK(a.view().data == data);
  CHECK(memory.current().total() == 64);
}

TEST_CASE("resetting peaks restarts them from current use") {
  Memory memory;
  Tensor kept{memory, {3}, MemoryCategory::parameters};
  Tensor{memory, {1000}, MemoryCategory::activations};
  CHECK(memory.peak_total() == 4012);
  memory.reset_peak();
  CHECK(memory.peak_total() == 12);
  CHECK(memory.peak().of(MemoryCategory::activations) == 0);
  CHECK(memory.peak().of(MemoryCategory::parameters) == 12);
}

TEST_CASE(
    "tensors are aligned and do not overlap, and even a tensor without elements has an address") {
  Memory memory;
  std::vector<Tensor> tensors;
  for (std::int64_t n : {0, 1, 15, 16, 17, 1000, 1000, 1000})
    tensors.emplace_back(memory, Shape{n}, MemoryCategory::activations);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(reinterpret_cast<std::uintptr_t>(tensors[i].view().data) % 64 == 0);
    std::memset(tensors[i].view().data, static_cast<int>(i + 1), tensors[i].bytes());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto* bytes = static_cast<const unsigned char*>(tensors[i].view().data);
    CHECK(std::all_of(bytes, bytes + tensors[i].bytes(),
                      [&](unsigned char byte) { return byte == i + 1; }));
  }
}

// Compares random programs with a ledger that recomputes all sums at each step.
TEST_CASE("memory accounting matches a ledger that sums all live storage") {
  std::mt19937 random{7};
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 200; ++round) {
    Memory memory{round % 2 == 0 ? DeviceKind::cpu : DeviceKind::meta};
    std::vector<std::pair<Tensor, int>> alive;                    // with its storage's number
    std::map<int, std::pair<std::int64_t, MemoryCategory>> book;  // by storage number
    MemoryUse peak;
    std::int64_t peak_total = 0;
    for (int step = 0; step < 120; ++step) {
      const int move = below(6);
      const auto pick = static_cast<std::size_t>(below(static_cast<int>(alive.size()) + 1));
      const auto category = static_cast<MemoryCategory>(below(memory_category_count));
      if (move <= 1 || pick == alive.size()) {
        const std::int64_t n = below(3) == 0 ? 64 : below(500);
        alive.emplace_back(Tensor{memory, {n}, category}, step);
        book[step] = {4 * n, category};
      } else if (move == 2) {
        Tensor shared = alive[pick].first.share();
        const int storage = alive[pick].second;
        alive.emplace_back(std::move(shared), storage);
      } else if (move == 3) {
        alive[pick].first.charge_to(category);
        book[alive[pick].second].second = category;
      } else if (move == 4) {
        const int storage = alive[pick].second;
        alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(pick));
        if (std::none_of(alive.begin(), alive.end(),
                         [&](const auto& each) { return each.second == storage; }))
          book.erase(storage);
      } else if (below(10) == 0) {
        memory.reset_peak();
        peak = {};
        peak_total = 0;
      }
      MemoryUse use;
      for (const auto& [storage, charge] : book)
        use.bytes[static_cast<std::size_t>(charge.second)] += charge.first;
      for (std::size_t i = 0; i < use.bytes.size(); ++i)
        peak.bytes[i] = std::max(peak.bytes[i], use.bytes[i]);
      peak_total = std::max(peak_total, use.total());
      REQUIRE(memory.current().bytes == use.bytes);
      REQUIRE(memory.peak().bytes == peak.bytes);
      REQUIRE(memory.peak_total() == peak_total);
    }
    alive.clear();
    CHECK(memory.current().total() == 0);
  }
}

TEST_CASE("resident memory follows the account when block sizes change") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // a sanitizer keeps released memory in quarantine
#endif
  if (!resident_bytes()) return;
  constexpr std::int64_t MiB = 1 << 20, account = 64 * MiB;
  Memory memory;
  const std::int64_t before = resident_bytes()->now;
  // No round can reuse the blocks of the previous round.
  for (const std::int64_t block : {4 * MiB, 5 * MiB, 3 * MiB, 7 * MiB, 1 * MiB}) {
    std::vector<Tensor> tensors;
    while (memory.current().total() + block <= account) {
      tensors.emplace_back(memory, Shape{block / 4}, MemoryCategory::activations);
      std::memset(tensors.back().view().data, 1, tensors.back().bytes());
    }
    CHECK(resident_bytes()->now - before <= account + account / 10);
  }
  memory.release_idle();
  CHECK(resident_bytes()->now - before <= account / 10);
}
