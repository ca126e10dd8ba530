// Operations of core/comm/transport/gpu_communicator.h that do not match, or that never complete.

#include <atomic>

#include "tests/gpu/communicator_ranks.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("mismatched arguments are rejected before any rank waits") {
  on_ranks(1, [](const Rank& rank) {
    const View data = on_gpu(rank, values(0, 12, 0));
    View strided = data.reshaped(Shape{3, 4}).columns(0, 2);
    CHECK_THROWS_AS(rank.world.all_reduce(rank.queue, strided), std::invalid_argument);
    CHECK_THROWS_AS(rank.world.reduce_scatter(rank.queue, data, chunk(data, 0, 2)),
                    std::invalid_argument);
    CHECK(!rank.world.error());
  });
  CHECK_THROWS_AS(library().open(0)->join(std::vector<std::byte>(5), 1, 0, nullptr),
                  std::invalid_argument);
}

TEST_CASE("two ranks on one GPU are refused") {
  const std::vector<std::byte> id = library().open(0)->make_communicator_id();
  on_threads(2, [&](int rank) {
    const auto gpu = library().open(0);
    std::string words;
    try {
      gpu->join(id, 2, rank, nullptr);
    } catch (const std::runtime_error& error) {
      words = error.what();
    }
    INFO(words);
    // The text of ncclGetLastError may be a different one, because the process has only one such
    // text.
    CHECK(words.find("invalid usage") != std::string::npos);
  });
}

TEST_CASE("a rank that never joins does not keep the others waiting") {
  if (gpus() < 2) return;
  const auto gpu = library().open(0);
  const std::vector<std::byte> id = gpu->make_communicator_id();
  double longest = 0;
  CHECK_THROWS_WITH_AS(gpu->join(id, 2, 0,
                                 [&](double waited) {
                                   longest = waited;
                                   if (waited > 0.2) throw RunError{"enough"};
                                 }),
                       "enough", RunError);
  CHECK(longest > 0.2);
  CHECK(longest < 20);
}

TEST_CASE("emulated: the host does not wait inside NCCL for a connection") {
  if (!is_emulated() || gpus() < 2) return;
  if (std::getenv("LOCKSTEP_EMULATED_NCCL_CONNECTS") == nullptr) return;
  const auto id = library().open(0)->make_communicator_id();
  on_threads(2, [&](int index) {
    const auto gpu = library().open(index);
    Scope scope{*gpu};
    std::atomic<bool> enough = false;
    const auto world = gpu->join(id, 2, index, [&](double waited) {
      if (enough && waited > 0.2) throw RunError{"enough"};
    });
    enough = true;
    if (index == 1) return;
    const Queue queue = scope.queue();
    const View data{scope.device<float>(1, queue), Shape{1}};
    const MarkPtr before = gpu->record(queue);
    // The other rank never receives, so the two ranks are never connected.
    CHECK_THROWS_WITH_AS(world->send(queue, data, 1), "enough", RunError);
    world->abort("a test");
    CHECK(passes_within(*gpu, *before, 20));
  });
}

TEST_CASE("aborting a communicator frees a queue that is stuck in it") {
  if (gpus() < 2) return;
  on_ranks(2, [](const Rank& rank) {
    const View data = on_gpu(rank, values(rank.index, 10, 0));
    finish(rank.gpu, rank.queue);
    // The other rank never joins.
    if (rank.index == 0) rank.world.all_reduce(rank.queue, data);
    const MarkPtr end = rank.gpu.record(rank.queue);
    CHECK(passes_within(rank.gpu, *end, 0.3) == (rank.index == 1));
    // Abort from another thread, as a watchdog does.
    std::thread watch{[&] { rank.world.abort("a test"); }};
    CHECK(passes_within(rank.gpu, *end, 20));
    watch.join();
    rank.world.abort("a test");
    CHECK_THROWS_WITH_AS(rank.world.all_reduce(rank.queue, data),
                         "ncclAllReduce: this communicator can no longer be used: a test",
                         std::runtime_error);
    CHECK(rank.world.error() == "this communicator can no longer be used: a test");
  });
}

TEST_CASE("an allocation does not wait for memory that a stuck queue has yet to release") {
  if (gpus() < 2) return;
  on_ranks(2, [](const Rank& rank) {
    if (rank.index == 1) return;
    const Queue stuck = rank.scope.queue(), free = rank.scope.queue();
    constexpr std::size_t bytes = 48U << 20U;  // a size that no other block has
    void* const data = rank.gpu.allocate(bytes, stuck);
    rank.world.all_reduce(stuck, View{data, Shape{10}});  // the other rank never joins
    rank.gpu.release(data, stuck);
    void* const other = rank.gpu.allocate(bytes, free);
    CHECK(passes_within(rank.gpu, *rank.gpu.record(free), 20));
    rank.gpu.release(other, free);
    rank.world.abort("a test");
  });
}

TEST_CASE("a group that is open during an abort is ended, so that the thread can go on") {
  if (gpus() < 2) return;
  on_ranks(2, [](const Rank& rank) {
    const auto other = rank.second();
    const View data = on_gpu(rank, values(rank.index, 10, 0));
    rank.world.begin_group();
    std::thread watch{[&] { rank.world.abort("a test"); }};
    while (!rank.world.error()) std::this_thread::yield();
    CHECK_THROWS_AS(rank.world.send(rank.queue, data, 1 - rank.index), std::runtime_error);
    try {
      rank.world.end_group();
    } catch (const std::runtime_error&) {
    }
    watch.join();
    // In an open group, this all-reduce would never be submitted.
    other->all_reduce(rank.queue, data);
    Values sum = values(0, 10, 0);
    const Values second = values(1, 10, 0);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += second[i];
    CHECK(from_gpu(rank, data) == sum);
  });
}

TEST_CASE("abort while operations are being issued") {
  // Each trial creates a communicator, so the portion aborts after fewer different delays.
  const int step = testing::portion_of(20, 120);
  for (int microseconds = 0; microseconds < 600; microseconds += step)
    on_ranks(1, [&](const Rank& rank) {
      const View data = on_gpu(rank, values(0, 10, 0));
      std::thread watch{[&] {
        std::this_thread::sleep_for(std::chrono::microseconds{microseconds});
        rank.world.abort("a test");
      }};
      try {
        for (;;) rank.world.all_reduce(rank.queue, data);
      } catch (const std::runtime_error&) {
      }
      watch.join();
    });
}

TEST_CASE("emulated: operations that may hang on GPUs do hang") {
  if (!is_emulated() || gpus() < 2) return;
  const auto hangs = [](const std::function<void(const Rank&, View, View)>& work) {
    on_ranks(2, [&](const Rank& rank) {
      const View a = on_gpu(rank, values(rank.index, 10, 0));
      const View b = on_gpu(rank, values(rank.index, 10, 1));
      work(rank, a, b);
      const MarkPtr end = rank.gpu.record(rank.queue);
      CHECK_FALSE(passes_within(rank.gpu, *end, 0.2));
      rank.world.abort("a test");
      CHECK(passes_within(rank.gpu, *end, 20));
    });
  };
  SUBCASE("both send first, not in a group") {
    hangs([](const Rank& rank, View a, View b) {
      rank.world.send(rank.queue, a, 1 - rank.index);
      rank.world.receive(rank.queue, b, 1 - rank.index);
    });
  }
  SUBCASE("sizes differ") {
    hangs([](const Rank& rank, View a, View) {
      rank.world.all_reduce(rank.queue, rank.index == 0 ? a : chunk(a, 0, 2));
    });
  }
  SUBCASE("another operation comes first on one of them") {
    hangs([](const Rank& rank, View a, View b) {
      if (rank.index == 0) rank.world.all_reduce(rank.queue, a);
      rank.world.broadcast(rank.queue, b, 0);
      if (rank.index == 1) rank.world.all_reduce(rank.queue, a);
    });
  }
  SUBCASE("two operations that wait for each other, on two queues in another order") {
    on_ranks(2, [](const Rank& rank) {
      const auto second = rank.second();
      const View a = on_gpu(rank, values(rank.index, 10, 0));
      // On one queue, the first operation blocks the second.
      (rank.index == 0 ? rank.world : *second).all_reduce(rank.queue, a);
      (rank.index == 0 ? *second : rank.world).all_reduce(rank.queue, a);
      const MarkPtr end = rank.gpu.record(rank.queue);
      CHECK_FALSE(passes_within(rank.gpu, *end, 0.2));
      rank.world.abort("a test");
      second->abort("a test");
      CHECK(passes_within(rank.gpu, *end, 20));
    });
  }
}

TEST_CASE("an operation waits for those before it on its communicator, on other queues too") {
  if (gpus() < 2) return;
  std::latch seen{2};
  on_ranks(2, [&](const Rank& rank) {
    const auto second = rank.second();
    const Queue stuck = rank.scope.queue();
    const Queue free = rank.scope.queue();
    const View a = on_gpu(rank, values(rank.index, 10, 0));
    const View b = on_gpu(rank, values(rank.index, 10, 1));
    const View c = on_gpu(rank, values(rank.index, 10, 2));
    finish(rank.gpu, rank.queue);
    // Rank 0's first operation on `world` waits for one on `second`, which rank 1 joins late.
    if (rank.index == 0) second->all_reduce(stuck, a);
    rank.gpu.wait(rank.queue, *rank.gpu.record(stuck));
    rank.world.all_reduce(rank.queue, b);
    rank.world.all_reduce(free, c);
    CHECK_FALSE(passes_within(rank.gpu, *rank.gpu.record(free), 0.2));
    seen.arrive_and_wait();
    if (rank.index == 1) second->all_reduce(stuck, a);
    finish(rank.gpu, free);
    for (const auto& [view, seed] : {std::pair{a, 0}, {b, 1}, {c, 2}})
      CHECK(from_gpu(rank, view) == sum_of(2, 10, seed));
  });
}

TEST_CASE("emulated: a silent network failure is reported, and abort ends the wait") {
  if (!is_emulated() || gpus() < 2) return;
  setenv("LOCKSTEP_EMULATED_NCCL_ERROR", "1:3", 1);
  on_ranks(2, [](const Rank& rank) {
    const View data = on_gpu(rank, values(rank.index, 10, 0));
    CHECK(!rank.world.error());
    try {
      for (int i = 0; i < 5; ++i) rank.world.all_reduce(rank.queue, data);
    } catch (const std::runtime_error& error) {  // a call that was in progress may report it
      CHECK(rank.index == 1);
      CHECK(std::string{error.what()}.find("remote process exited") != std::string::npos);
    }
    const MarkPtr end = rank.gpu.record(rank.queue);
    CHECK_FALSE(passes_within(rank.gpu, *end, 0.2));
    const std::optional<std::string> error = rank.world.error();
    CHECK(error.has_value() == (rank.index == 1));
    if (error) CHECK(error->find("remote process exited") != std::string::npos);
    rank.world.abort("a test");
    CHECK(passes_within(rank.gpu, *end, 20));
  });
  unsetenv("LOCKSTEP_EMULATED_NCCL_ERROR");
}

TEST_CASE("emulated: a process that ends with work on its queues doesn't hang") {
  if (!is_emulated()) return;
  const auto gpu = library().open(0);
  const std::string words = last_words([&] {
    const Queue queue = gpu->make_queue(false);
    const auto world = gpu->join(gpu->make_communicator_id(), 1, 0, nullptr);
    void* data = gpu->allocate(4, queue);
    world->all_reduce(queue, View{data, Shape{1}});
    std::fprintf(stderr, "the end");
    std::exit(0);
  });
  CHECK(words == "");
}
