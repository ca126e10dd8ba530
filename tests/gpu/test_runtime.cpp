// Tests the guarantees of core/device/gpu.h about memory, queues and marks, on a GPU and on the
// emulator. An error that occurs once in a million runs on a GPU occurs within a few runs on the
// emulator.

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/gpu/gpu_under_test.h"

using namespace lockstep;
using namespace lockstep::test;

namespace {

constexpr std::size_t n = 1000;
constexpr std::size_t bytes = n * sizeof(int);
constexpr int trials = 60;

std::vector<int> numbers(int first) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}
bool are(const int* values, const std::vector<int>& expected) {
  return std::equal(expected.begin(), expected.end(), values);
}

/// Calls trial(first) `trials` times and returns how many of the calls were correct.
int right(const std::function<bool(int first)>& trial) {
  int count = 0;
  for (int i = 0; i < trials; ++i) count += trial(1000 * i) ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("the process's GPUs can be listed and opened") {
  std::set<std::string> addresses;
  for (const GpuInfo& gpu : library().gpus()) {
    CHECK(gpu.name != "");
    CHECK(gpu.memory > 0);
    CHECK(gpu.compute_capability >= 50);
    CHECK(gpu.multiprocessors > 0);
    addresses.insert(gpu.address);
  }
  CHECK(addresses.size() == library().gpus().size());
  CHECK(library().versions().substr(0, 5) == "CUDA ");
  for (int i = 0; i < gpus(); ++i) CHECK(library().open(i)->index() == i);
  CHECK_THROWS_AS(library().open(gpus()), std::runtime_error);
}

TEST_CASE("work on one queue runs in order") {
  const auto gpu = library().open(0);
  std::mt19937 random{1};
  CHECK(right([&](int first) {
          Scope scope{*gpu};
          const Queue queue = scope.queue(first % 2000 == 0);
          std::vector<int*> places;
          for (int i = 0; i < 4; ++i) places.push_back(scope.device<int>(n, queue));
          int* host = scope.pinned<int>(2 * n);
          std::copy_n(numbers(first).begin(), n, host);
          // Copies many times within the GPU, and once through the host.
          int* at = places[0];
          gpu->copy(queue, at, host, bytes);
          for (int i = 0; i < 20; ++i) {
            int* next = places[random() % places.size()];
            if (next != at) gpu->copy(queue, next, at, bytes);
            at = next;
            if (i != 10) continue;
            gpu->copy(queue, host + n, at, bytes);
            gpu->copy(queue, at, host + n, bytes);
          }
          gpu->copy(queue, host + n, at, bytes);
          finish(*gpu, queue);
          return are(host + n, numbers(first));
        }) == trials);
}

namespace {

/// Writes on one queue and reads on another; returns whether the reader read the new data.
bool hand_over(Gpu& gpu, int first, bool waits) {
  Scope scope{gpu};
  const Queue writer = scope.queue();
  const Queue reader = scope.queue();
  int* host = scope.pinned<int>(2 * n);
  std::copy_n(numbers(first).begin(), n, host);
  int* data = scope.device<int>(n, writer);
  const MarkPtr allocated = gpu.record(writer);
  gpu.copy(writer, data, host, bytes);
  const MarkPtr written = gpu.record(writer);
  gpu.wait(reader, waits ? *written : *allocated);
  gpu.copy(reader, host + n, data, bytes);
  finish(gpu, reader);
  return are(host + n, numbers(first));
}

}  // namespace

TEST_CASE("a queue that waits for a mark reads what was written before it") {
  const auto gpu = library().open(0);
  CHECK(right([&](int first) { return hand_over(*gpu, first, true); }) == trials);
}

TEST_CASE("emulated: a queue that does not wait is detected") {
  if (!is_lazy()) return;
  const auto gpu = library().open(0);
  CHECK(right([&](int first) { return hand_over(*gpu, first, false); }) < trials);
}

TEST_CASE("a wait refers to the mark at the time of the call, even if its event is reused") {
  const auto gpu = library().open(0);
  CHECK(right([&](int first) {
          Scope scope{*gpu};
          const Queue writer = scope.queue();
          const Queue reader = scope.queue();
          const Queue other = scope.queue();
          int* host = scope.pinned<int>(2 * n);
          std::copy_n(numbers(first).begin(), n, host);
          int* data = scope.device<int>(n, writer);
          gpu->copy(writer, data, host, bytes);
          gpu->wait(reader, *gpu->record(writer));
          for (int i = 0; i < 4; ++i) gpu->record(other);
          gpu->copy(reader, host + n, data, bytes);
          finish(*gpu, reader);
          return are(host + n, numbers(first));
        }) == trials);
}

TEST_CASE("pageable memory is read at the call") {
  const auto gpu = library().open(0);
  CHECK(right([&](int first) {
          Scope scope{*gpu};
          const Queue queue = scope.queue();
          std::vector<int> values = numbers(first);
          int* data = scope.device<int>(n, queue);
          gpu->copy(queue, data, values.data(), bytes);
          std::fill(values.begin(), values.end(), -1);
          gpu->copy(queue, values.data(), data, bytes);
          finish(*gpu, queue);
          return are(values.data(), numbers(first));
        }) == trials);
}

TEST_CASE("emulated: pinned memory is read when the queue reaches the copy") {
  if (!is_emulated()) return;
  const auto gpu = library().open(0);
  const int early = right([&](int first) {
    Scope scope{*gpu};
    const Queue queue = scope.queue();
    int* host = scope.pinned<int>(2 * n);
    std::copy_n(numbers(first).begin(), n, host);
    int* data = scope.device<int>(n, queue);
    gpu->copy(queue, data, host, bytes);
    std::copy_n(numbers(-first - 5000).begin(), n, host);  // overwrites `host` too early
    gpu->copy(queue, host + n, data, bytes);
    finish(*gpu, queue);
    return are(host + n, numbers(first));
  });
  CHECK(early == (is_lazy() ? 0 : trials));
}

TEST_CASE("the time between two marks can be measured") {
  const auto gpu = library().open(0);
  Scope scope{*gpu};
  const Queue queue = scope.queue();
  int* host = scope.pinned<int>(n);
  int* data = scope.device<int>(n, queue);
  finish(*gpu, queue);
  const auto start = std::chrono::steady_clock::now();
  std::vector<MarkPtr> marks{gpu->record(queue)};
  for (int i = 0; i < 10; ++i) {
    gpu->copy(queue, data, host, bytes);
    marks.push_back(gpu->record(queue));
  }
  finish(*gpu, queue);
  const std::chrono::duration<double, std::milli> by_host =
      std::chrono::steady_clock::now() - start;
  double sum = 0.0;
  for (std::size_t i = 1; i < marks.size(); ++i) {
    const double step = gpu->milliseconds(*marks[i - 1], *marks[i]);
    CHECK(step >= 0.0);
    sum += step;
  }
  CHECK(sum > 0.0);
  CHECK(sum <= 1.01 * by_host.count() + 0.01);
  CHECK(gpu->milliseconds(*marks.front(), *marks.back()) == doctest::Approx(sum).epsilon(0.02));
  CHECK(gpu->milliseconds(*marks.back(), *marks.front()) == doctest::Approx(-sum).epsilon(0.02));
}

TEST_CASE("released memory is reused, and the GPU's memory does not fill up") {
  const auto gpu = library().open(0);
  const Queue queue = gpu->make_queue(false);
  constexpr std::size_t size = 256U << 20U;
  const std::int64_t first = gpu->memory_in_use();
  gpu->release(gpu->allocate(size, queue), queue);
  finish(*gpu, queue);
  const std::int64_t before = gpu->memory_in_use();
  // Part of it may be memory that earlier tests have released (32 MiB on an H200).
  CHECK(before - first >= static_cast<std::int64_t>(size / 2));
  for (int i = 0; i < 50; ++i) {
    void* data = gpu->allocate(size, queue);
    CHECK(reinterpret_cast<std::uintptr_t>(data) % 256 == 0);
    gpu->release(data, queue);
  }
  finish(*gpu, queue);
  CHECK(gpu->memory_in_use() == before);
  gpu->drop_queue(queue);
}

TEST_CASE("reserved memory is not in use before something uses it") {
  const auto gpu = library().open(0);
  const Queue queue = gpu->make_queue(false);
  constexpr std::int64_t size = 64 << 20;
  const std::int64_t before = gpu->memory_in_use();
  gpu->reserve(4 * size);
  const std::int64_t reserved = gpu->memory_in_use();
  CHECK(reserved - before < size);
  void* data = gpu->allocate(size, queue);
  CHECK(gpu->memory_in_use() - reserved >= size);
  CHECK(gpu->memory_in_use() - reserved <= 2 * size);
  gpu->release(data, queue);
  finish(*gpu, queue);
  gpu->drop_queue(queue);
}

TEST_CASE(
    "memory released on one queue goes to another only after the first has reached the release") {
  const auto gpu = library().open(0);
  CHECK(right([&](int first) {
          Scope scope{*gpu};
          const Queue one = scope.queue();
          const Queue other = scope.queue();
          int* host = scope.pinned<int>(4 * n);
          std::copy_n(numbers(first).begin(), n, host);
          std::copy_n(numbers(-first - 5000).begin(), n, host + n);
          void* data = gpu->allocate(bytes, one);
          gpu->copy(one, data, host, bytes);
          gpu->copy(one, host + 2 * n, data, bytes);
          gpu->release(data, one);
          void* next = gpu->allocate(bytes, other);
          gpu->copy(other, next, host + n, bytes);
          gpu->copy(other, host + 3 * n, next, bytes);
          gpu->release(next, other);
          finish(*gpu, other);
          finish(*gpu, one);
          return are(host + 2 * n, numbers(first)) && are(host + 3 * n, numbers(-first - 5000));
        }) == trials);
}

TEST_CASE("running out of memory throws std::bad_alloc, and everything else continues") {
  const auto gpu = library().open(0);
  const Queue queue = gpu->make_queue(false);
  const auto all = static_cast<std::size_t>(gpu->info().memory);
  CHECK_THROWS_AS(gpu->allocate(2 * all, queue), std::bad_alloc);
  finish(*gpu, queue);
  CHECK(hand_over(*gpu, 1, true));
  gpu->drop_queue(queue);
}

TEST_CASE("threads use several GPUs, and pass data from one to the next") {
  const auto first = library().open(0);
  first->open_to_peers();
  Scope scope{*first};
  const Queue queue = scope.queue();
  int* host = scope.pinned<int>(2 * n);
  int* data = scope.device<int>(n, queue);
  std::copy_n(numbers(7).begin(), n, host);
  first->copy(queue, data, host, bytes);
  const MarkPtr written = first->record(queue);
  on_threads(8, [&](int rank) {
    const auto gpu = library().open(rank % gpus());
    for (int trial = 0; trial < 10; ++trial) {
      Scope own{*gpu};
      const Queue mine = own.queue();
      int* result = own.pinned<int>(n);
      int* copy = own.device<int>(n, mine);
      gpu->wait(mine, *written);
      gpu->copy(mine, copy, data, bytes);
      gpu->copy(mine, result, copy, bytes);
      finish(*gpu, mine);
      CHECK(are(result, numbers(7)));
      CHECK(hand_over(*gpu, 1000 * trial, true));
    }
  });
}

TEST_CASE("emulated: an error names the call, the GPU and CUDA's message") {
  if (!is_emulated()) return;
  const auto gpu = library().open(gpus() - 1);
  const Queue queue = gpu->make_queue(false);
  const MarkPtr from = gpu->record(queue);
  gpu->drop_queue(queue);
  const std::string expected = "cudaEventRecord on GPU " + std::to_string(gpus() - 1) +
                               ": cudaErrorInvalidResourceHandle (invalid resource handle)";
  CHECK_THROWS_WITH_AS(gpu->record(queue), expected.c_str(), std::runtime_error);
  CHECK(passes_within(*gpu, *from, 10));
}

TEST_CASE("emulated: using memory outside its lifetime ends the process with a message") {
  if (!is_emulated()) return;
  const auto gpu = library().open(0);
  const Queue queue = gpu->make_queue(false);
  std::vector<int> host(n + 1);
  const auto says = [](const std::string& words, const std::string& part) {
    INFO(words);
    CHECK(words.find(part) != std::string::npos);
  };
  says(last_words([&] {
         void* data = gpu->allocate(bytes, queue);
         gpu->release(data, queue);
         gpu->release(data, queue);
       }),
       "freed twice");
  says(last_words([&] {
         const Queue gone = gpu->make_queue(false);
         void* data = gpu->allocate(bytes, gone);
         gpu->drop_queue(gone);
         gpu->release(data, gone);
       }),
       "stream that was destroyed");
  says(last_words([&] {
         void* data = gpu->allocate(bytes, queue);
         gpu->release(data, queue);
         gpu->copy(queue, host.data(), data, bytes);
       }),
       "nothing is allocated now");
  says(last_words([&] {
         void* data = gpu->allocate(bytes, queue);
         gpu->copy(queue, data, host.data(), bytes + 4);
         finish(*gpu, queue);
       }),
       "4004 bytes at offset 0 of a block of 4000 bytes");
  if (!is_lazy()) return;
  says(last_words([&] {
         void* pinned = gpu->allocate_pinned(bytes);
         gpu->copy(queue, gpu->allocate(bytes, queue), pinned, bytes);
         gpu->release_pinned(pinned);
         finish(*gpu, queue);
       }),
       "pinned memory that was released");
  // The release does not wait for a reader on another queue. Among 200 random orders of the queues,
  // at least one reveals this mistake.
  says(last_words([&] {
         for (int i = 0; i < 200; ++i) {
           Scope scope{*gpu};
           const Queue reader = scope.queue();
           int* result = scope.pinned<int>(n);
           void* data = gpu->allocate(bytes, queue);
           gpu->wait(reader, *gpu->record(queue));
           gpu->copy(reader, result, data, bytes);
           gpu->release(data, queue);
           finish(*gpu, queue);
           finish(*gpu, reader);
         }
       }),
       "nothing is allocated now");
  gpu->drop_queue(queue);
}

TEST_CASE("emulated: new memory is filled with 0xff bytes") {
  if (!is_emulated()) return;
  const auto gpu = library().open(0);
  Scope scope{*gpu};
  const Queue queue = scope.queue();
  // No earlier test allocates this size, so the first iteration gets new memory; the later ones
  // may reuse it.
  std::vector<int> host(13 * n, 5);
  const std::size_t size = 13 * bytes;
  for (int i = 0; i < 3; ++i) {
    void* data = gpu->allocate(size, queue);
    gpu->copy(queue, host.data(), data, size);
    CHECK(std::all_of(host.begin(), host.end(), [](int x) { return x == -1; }));
    std::fill(host.begin(), host.end(), 5);
    gpu->copy(queue, data, host.data(), size);
    gpu->release(data, queue);
  }
}
