#include <doctest/doctest.h>

#include <atomic>
#include <latch>

#include "core/comm/transport/control.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using lockstep::testing::modelled_options;
using lockstep::testing::on_threads;

namespace {

View numbers(std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("threads: messages of one channel arrive in order, whichever side comes first") {
  std::atomic<int> wrong = 0;
  const std::string failure = on_threads(modelled_options(2), [&](Rank& rank) {
    for (int round = 0; round < 200; ++round) {
      std::vector<float> a(7), b(7);
      if (rank.id == 0) {
        a.assign(7, static_cast<float>(2 * round));
        b.assign(7, static_cast<float>(2 * round + 1));
        Work first = rank.world.send(numbers(a), 1);
        Work second = rank.world.send(numbers(b), 1);
        if (round % 3 == 0) second.wait();  // before the first one
        first.wait();
        second.wait();
      } else {
        Work first = rank.world.receive(numbers(a), 0);
        Work second = rank.world.receive(numbers(b), 0);
        if (round % 2 == 0) second.wait();
        first.wait();
        second.wait();
        if (a[6] != static_cast<float>(2 * round)) ++wrong;
        if (b[0] != static_cast<float>(2 * round + 1)) ++wrong;
      }
    }
  });
  CHECK(failure == "");
  CHECK(wrong == 0);
}

TEST_CASE("threads: the error for different sizes names both sides") {
  const std::string failure = on_threads(modelled_options(2), [](Rank& rank) {
    std::vector<float> values(rank.id == 0 ? 3 : 4);
    if (rank.id == 0) rank.world.send(numbers(values), 1).wait();
    if (rank.id == 1) rank.world.receive(numbers(values), 0).wait();
  });
  CHECK(contains(failure, "rank 0 sends 12 bytes (test_threads_transport.cpp:"));
  CHECK(contains(failure, "rank 1 receives 16"));
}

TEST_CASE("threads: if every rank sends first, the error shows the cycle with source lines") {
  const std::string failure = on_threads(modelled_options(3), [](Rank& rank) {
    std::vector<float> values(5);
    rank.world.send(numbers(values), (rank.id + 1) % 3).wait();
    rank.world.receive(numbers(values), (rank.id + 2) % 3).wait();
  });
  CHECK(contains(failure, "deadlock"));
  CHECK(contains(failure,
                 "rank 0 waits for rank 1 to receive 20 bytes (test_threads_transport.cpp:"));
  CHECK(contains(failure, "rank 2 waits for rank 0 to receive 20 bytes"));
  CHECK(contains(failure, "test_threads_transport.cpp:"));
}

TEST_CASE("threads: waiting for a rank that has finished is an error at once") {
  const std::string failure = on_threads(modelled_options(2), [](Rank& rank) {
    std::vector<float> values(5);
    if (rank.id == 0) rank.world.receive(numbers(values), 1).wait();
  });
  CHECK(contains(failure, "rank 0 waits for rank 1 to send 20 bytes"));
  CHECK(contains(failure, "has finished"));
}

TEST_CASE("threads: a rank that throws ends the others' waits") {
  const std::string failure = on_threads(modelled_options(4), [](Rank& rank) {
    std::vector<float> values(5);
    if (rank.id == 2) throw RunError("rank 2: out of luck");
    rank.world.all_reduce(numbers(values)).wait();
  });
  CHECK(failure == "rank 2: out of luck");
}

TEST_CASE("threads: a Pending that is dropped withdraws its message") {
  std::latch dropped{1};
  const std::string failure = on_threads(modelled_options(2), [&](Rank& rank) {
    std::vector<float> keep(4, 1.0F);
    if (rank.id == 0) {
      {
        std::vector<float> gone(9);  // the send of 4 must not match it
        Work posted = rank.world.receive(numbers(gone), 1);
      }
      dropped.count_down();
      rank.world.receive(numbers(keep), 1).wait();
    } else {
      dropped.wait();
      rank.world.send(numbers(keep), 0).wait();
    }
  });
  CHECK(failure == "");
}

TEST_CASE("threads: different collectives of one size are detected, and both are named") {
  const std::string failure = on_threads(modelled_options(2), [](Rank& rank) {
    std::vector<float> values(8);
    if (rank.id == 0) rank.world.all_gather(numbers(values)).wait();
    if (rank.id == 1) rank.world.reduce_scatter(numbers(values)).wait();
  });
  CHECK(contains(failure, "all_gather"));
  CHECK(contains(failure, "reduce_scatter"));
}

TEST_CASE("a strided view is rejected, not sent as if it were contiguous") {
  const std::string failure = on_threads(modelled_options(1), [](Rank& rank) {
    std::vector<float> values(8);
    Work refused = rank.world.send(View{values.data(), {2, 4}}.columns(0, 2), 0);
  });
  CHECK(contains(failure, "contiguous"));
}

TEST_CASE("invalid members, elements and names are rejected, with no read past the end") {
  const auto failure = [](const auto& wrong) {
    return on_threads(modelled_options(2), [&](Rank& rank) { wrong(rank); });
  };
  std::vector<float> values(8);
  const View data = numbers(values);
  const std::string members = "world has members 0 to 1";
  CHECK(contains(failure([&](Rank& rank) { rank.world.send(data, rank.id + 2).wait(); }), members));
  CHECK(contains(failure([&](Rank& rank) { rank.world.receive(data, -1).wait(); }), members));
  CHECK(contains(failure([&](Rank& rank) { rank.world.broadcast(data, 2).wait(); }), members));
  CHECK(contains(failure([&](Rank& rank) { rank.world.gather(data, -1).wait(); }), members));
  CHECK(contains(failure([&](Rank& rank) {
                   rank.world.all_reduce(View{values.data(), {2, 4}}.columns(0, 2)).wait();
                 }),
                 "all_reduce in world: the elements must be contiguous"));
  CHECK(contains(failure([&](Rank& rank) {
                   rank.world.all_gather(View{values.data(), {8}, DType::i32}).wait();
                 }),
                 "all_gather in world: the elements must be f32"));
  CHECK(contains(
      failure([&](Rank& rank) {
        Group twin{
            rank.endpoint, {0, 1}, "world", rank.transport->open_channels(Group::channels_taken)};
      }),
      "already has a group named world"));
}

TEST_CASE("gather_to_all gives every rank all texts, in rank order, whatever they contain") {
  const std::vector<std::string> texts{"3 x", "", std::string("\0 1\n", 4), "last"};
  std::atomic<int> right = 0;
  const std::string failure = on_threads(modelled_options(4), [&](Rank& rank) {
    const std::string& mine = texts[static_cast<std::size_t>(rank.id)];
    if (gather_to_all(*rank.transport, mine) == texts) ++right;
  });
  CHECK(failure == "");
  CHECK(right == 4);
}
