// The guarantees of core/comm/transport/gpu_communicator.h, tested with one thread per GPU. Cases
// that need more GPUs than the machine has use fewer ranks.

#include "tests/gpu/communicator_ranks.h"

using namespace lockstep;
using namespace lockstep::test;

TEST_CASE("collectives are the plain sums and copies, in every type, at every size") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](const Rank& rank) {
      int seed = 0;
      for (const DType dtype : {DType::f32, DType::bf16, DType::i32, DType::f16})
        for (const int each : {0, 1, 7, 300}) {
          ++seed;
          const int count = each * ranks;
          const int root = seed % ranks;
          const Values mine = values(rank.index, count, seed);
          const Values sum = sum_of(ranks, count, seed);
          CAPTURE(ranks);
          CAPTURE(count);
          CAPTURE(name_of(dtype));

          rank.dawdle();
          const View reduced = on_gpu(rank, mine, dtype);
          rank.world.all_reduce(rank.queue, reduced);
          CHECK(from_gpu(rank, reduced) == sum);

          rank.dawdle();
          const View sent = on_gpu(rank, mine, dtype);
          rank.world.broadcast(rank.queue, sent, root);
          CHECK(from_gpu(rank, sent) == values(root, count, seed));

          const View rooted = on_gpu(rank, mine, dtype);
          rank.world.reduce(rank.queue, rooted, root);
          const Values at_root = from_gpu(rank, rooted);
          if (rank.index == root) CHECK(at_root == sum);

          rank.dawdle();
          const View scattered = on_gpu(rank, mine, dtype);
          const View own = chunk(scattered, rank.index, ranks);
          rank.world.reduce_scatter(rank.queue, scattered, own);
          CHECK(from_gpu(rank, own) == slice(sum, rank.index, ranks));

          // The other ranks' chunks are initially garbage.
          Values gathered(static_cast<std::size_t>(count), 99);
          Values expected;
          for (int r = 0; r < ranks; ++r)
            for (int x : slice(values(r, count, seed), r, ranks)) expected.push_back(x);
          const Values part = slice(mine, rank.index, ranks);
          std::copy(part.begin(), part.end(), gathered.begin() + rank.index * each);
          const View all = on_gpu(rank, gathered, dtype);
          rank.world.all_gather(rank.queue, all);
          CHECK(from_gpu(rank, all) == expected);
        }
    });
  }
}

TEST_CASE("a ring exchange in a group completes, whichever rank is late") {
  for (const int ranks : rank_counts())
    on_ranks(ranks, [ranks](const Rank& rank) {
      const int next = (rank.index + 1) % ranks;
      const int previous = (rank.index + ranks - 1) % ranks;
      Values token = values(rank.index, 50, 3);
      for (int round = 0; round < ranks; ++round) {
        rank.dawdle();
        const View out = on_gpu(rank, token);
        const View in = on_gpu(rank, Values(50, -77));
        rank.world.begin_group();
        rank.world.send(rank.queue, out, next);
        rank.world.receive(rank.queue, in, previous);
        rank.world.end_group();
        token = from_gpu(rank, in);
      }
      // The token has gone around the ring once.
      CHECK(token == values(rank.index, 50, 3));
    });
}

TEST_CASE("messages between two ranks match in order, and all-to-all completes in a group") {
  const int ranks = std::min(4, gpus());
  on_ranks(ranks, [ranks](const Rank& rank) {
    std::vector<View> out;
    std::vector<View> in;
    for (int i = 0; i < 2 * ranks; ++i) {
      out.push_back(on_gpu(rank, values(rank.index, 20, i)));
      in.push_back(on_gpu(rank, Values(20, -77)));
    }
    rank.dawdle();
    rank.world.begin_group();
    for (int i = 0; i < 2 * ranks; ++i) {
      rank.world.send(rank.queue, out[static_cast<std::size_t>(i)], i % ranks);
      rank.world.receive(rank.queue, in[static_cast<std::size_t>(i)], i % ranks);
    }
    rank.world.end_group();
    // The first message from rank r to this rank is r's message number rank.index; the second is
    // number ranks + rank.index.
    for (int i = 0; i < 2 * ranks; ++i)
      CHECK(from_gpu(rank, in[static_cast<std::size_t>(i)]) ==
            values(i % ranks, 20, i / ranks * ranks + rank.index));
  });
}

TEST_CASE("a group on two queues waits for both, and both wait for it") {
  const int ranks = std::min(4, gpus());
  on_ranks(ranks, [ranks](const Rank& rank) {
    const Rank beside{rank.index,         rank.gpu,    rank.world,    rank.scope,
                      rank.scope.queue(), rank.random, rank.second_id};
    for (int trial = 0; trial < 20; ++trial) {
      const View out = on_gpu(beside, values(rank.index, 20, trial));
      const View in = on_gpu(rank, Values(20, -77));
      rank.world.begin_group();
      rank.world.receive(rank.queue, in, (rank.index + ranks - 1) % ranks);
      rank.world.send(beside.queue, out, (rank.index + 1) % ranks);
      rank.world.end_group();
      const View next = on_gpu(beside, values(rank.index, 20, -1));
      rank.gpu.copy(beside.queue, out.data, next.data, out.bytes());
      CHECK(from_gpu(rank, in) == values((rank.index + ranks - 1) % ranks, 20, trial));
    }
  });
}

TEST_CASE("some of the ranks make a communicator, in another order") {
  const int ranks = std::min(4, gpus());
  const auto gpu = library().open(0);
  const std::vector ids{gpu->make_communicator_id(), gpu->make_communicator_id()};
  on_ranks(ranks, [&](const Rank& rank) {
    // The last rank does not take part; the others form an even and an odd group, in descending
    // order.
    if (rank.index < ranks - 1) {
      std::vector<int> members;
      for (int r = ranks - 2; r >= 0; --r)
        if (r % 2 == rank.index % 2) members.push_back(r);
      const auto place = std::find(members.begin(), members.end(), rank.index) - members.begin();
      const int size = static_cast<int>(members.size());
      const auto part = rank.gpu.join(ids[static_cast<std::size_t>(rank.index % 2)], size,
                                      static_cast<int>(place), nullptr);
      CHECK(part->size() == size);
      CHECK(part->rank() == place);
      const View data = on_gpu(rank, values(rank.index, 30, 1));
      part->all_reduce(rank.queue, data);
      Values sum(30);
      for (int r : members)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += value(r, static_cast<int>(i), 1);
      CHECK(from_gpu(rank, data) == sum);
    }
    // The original communicator still works.
    const View whole = on_gpu(rank, values(rank.index, 30, 2));
    rank.world.all_reduce(rank.queue, whole);
    CHECK(from_gpu(rank, whole) == sum_of(ranks, 30, 2));
  });
}

TEST_CASE("operations on one communicator match in order, whichever queue they are on") {
  const int ranks = std::min(4, gpus());
  on_ranks(ranks, [ranks](const Rank& rank) {
    const Queue other = rank.scope.queue();
    for (int trial = 0; trial < 10; ++trial) {
      const View data = on_gpu(rank, values(rank.index, 40, trial));
      const View second = on_gpu(rank, values(rank.index, 40, trial + 1));
      rank.gpu.wait(other, *rank.gpu.record(rank.queue));
      rank.world.all_reduce(other, data);
      rank.world.all_reduce(rank.queue, second);
      rank.gpu.wait(rank.queue, *rank.gpu.record(other));
      CHECK(from_gpu(rank, data) == sum_of(ranks, 40, trial));
      CHECK(from_gpu(rank, second) == sum_of(ranks, 40, trial + 1));
    }
  });
}
