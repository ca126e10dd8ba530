#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <numeric>
#include <random>

#include "core/model/parameter.h"
#include "tests/support/meta_checks.h"
#include "tests/support/mismatches.h"
#include "tests/support/watchdog.h"

// On the meta device, collectives are evaluated without exchanging messages. Times, bytes, memory
// peaks and traces match those of the CPU on the modelled clock, and errors end a run as they do on
// the CPU.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Issues random collectives and messages in random groups, in one global order, with random
/// compute before each operation. Each rank waits for its operations at random points.
class RandomRun {
 public:
  explicit RandomRun(unsigned seed) : seed_(seed), random_(seed) {
    ranks_ = 1 + below(9);
    std::vector<int> all;
    for (int i = 0; i < ranks_; ++i) all.push_back(i);
    groups_.push_back(all);
    for (int extra = below(4); extra > 0; --extra) {
      std::shuffle(all.begin(), all.end(), random_);
      groups_.emplace_back(all.begin(), all.begin() + 1 + below(ranks_));
    }
    for (int count = 1 + below(20); count > 0; --count)
      steps_.push_back({below(10),
                        static_cast<std::size_t>(below(static_cast<int>(groups_.size()))),
                        static_cast<unsigned>(random_())});
  }

  Options options() {
    Cluster cluster;
    cluster.flops = 1e9;
    cluster.nodes = 2;
    cluster.ranks_per_node = below(3) == 0 ? ranks_ : (ranks_ + 1) / 2;
    cluster.within = {1.3e-6 * below(3), below(4) == 0 ? 1e30 : 3.7e9};
    cluster.between = {1.1e-5, 1.23e8};
    Options options = modelled_options(ranks_, cluster);
    if (below(5) == 0) options.output.trace = "none";
    return options;
  }

  void operator()(Rank& rank, const Note& note) const {
    std::vector<std::unique_ptr<Group>> groups;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const int channels = rank.transport->open_channels(Group::channels_taken);
      const bool member = std::ranges::find(groups_[i], rank.id) != groups_[i].end();
      groups.push_back(member ? std::make_unique<Group>(rank.endpoint, groups_[i],
                                                        fmt::format("g{}", i), channels)
                              : nullptr);
    }
    std::mt19937 random{seed_ * 64 + static_cast<unsigned>(rank.id)};
    std::vector<Issued> open;
    const auto wait_for_one = [&] {
      const std::size_t which = random() % open.size();
      open[which].work.wait();
      note();
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      Group* group = groups[steps_[i].group].get();
      if (group == nullptr) continue;
      while (!open.empty() && random() % 3 == 0) wait_for_one();
      rank.trace.set_step(static_cast<int>(i) / 3);
      rank.compute.launch({.name = "work"}, {.flops = static_cast<double>(random() % 20'000)},
                          [](const Kernels&, Queue) {});
      issue(rank, *group, steps_[i], open);
    }
    while (!open.empty()) wait_for_one();
  }

 private:
  struct Step {
    int kind;
    std::size_t group;
    unsigned seed;
  };
  struct Issued {
    Tensor data, more;
    Work work;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  static void issue(Rank& rank, Group& group, const Step& step, std::vector<Issued>& open) {
    std::mt19937 random{step.seed};  // gives the same numbers on all members
    const auto size = static_cast<unsigned>(group.size());
    const std::int64_t sizes[] = {0, 1, 5, 64, 300, 1009};
    const std::int64_t n = sizes[random() % 6];
    const DType dtype = random() % 3 == 0 ? DType::bf16 : DType::f32;
    const int root = static_cast<int>(random() % size);
    const Algorithm algorithm = all_reduce_algorithms[random() % 5];
    const auto tensor = [&](std::int64_t elements) {
      Tensor made{rank.memory, {elements}, MemoryCategory::communication, dtype};
      fill_with_zeros(rank.device, made);
      return made;
    };
    Issued& issued = open.emplace_back();
    issued.data = tensor(step.kind == 7 ? n * size : n);
    const View data = issued.data;
    switch (step.kind) {
      case 0:
        issued.work = group.reduce_scatter(data);
        break;
      case 1:
        issued.work = group.all_gather(data);
        break;
      case 2:
        issued.work = group.broadcast(data, root);
        break;
      case 3:
        issued.work = group.gather(data, root);
        break;
      case 4:
        issued.work = group.barrier();
        break;
      case 5: {
        const int to = (root + 1) % group.size();
        if (to == root || (group.rank() != root && group.rank() != to))
          open.pop_back();
        else if (group.rank() == root)
          issued.work = group.send(data, to);
        else
          issued.work = group.receive(data, root);
        break;
      }
      case 6: {
        const auto counts = random_counts(group.size(), n, step.seed);
        std::vector<std::int64_t> out = counts[static_cast<std::size_t>(group.rank())], in;
        for (const auto& row : counts) in.push_back(row[static_cast<std::size_t>(group.rank())]);
        const auto sum = [](const auto& all) {
          return std::accumulate(all.begin(), all.end(), std::int64_t{0});
        };
        issued.data = tensor(sum(out));
        issued.more = tensor(sum(in));
        issued.work = group.all_to_all_v(issued.data, out, issued.more, in);
        break;
      }
      case 7:
        issued.more = tensor(n * size);
        issued.work = group.all_to_all(data, issued.more);
        break;
      default:
        issued.work = group.all_reduce(data, algorithm);
    }
  }

  unsigned seed_;
  std::mt19937 random_;
  int ranks_ = 1;
  std::vector<std::vector<int>> groups_;
  std::vector<Step> steps_;
};

/// Runs a program that must fail on the meta device, and returns its failure.
std::string failure_on_meta(int ranks, const std::function<void(Rank&, ThreadRun&)>& body,
                            double patience = 10) {
  ThreadRun run{on_meta(modelled_options(ranks)), patience};
  const Watchdog watchdog{run.fabric, 20};
  return run([&](Rank& rank) { body(rank, run); });
}

std::string at_line(int line) {
  return "(test_meta.cpp:" + std::to_string(line) + ")";
}

View elements(std::int64_t n) {
  return View{nullptr, {n}};
}

}  // namespace

TEST_CASE("meta: 300 random runs have the CPU's times, bytes, peaks and trace") {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    RandomRun run{seed};
    CAPTURE(seed);
    CHECK(cpu_against_meta(run.options(), std::cref(run)) == "");
  }
}

TEST_CASE("meta: a collective has no thread and sends no message") {
  constexpr int ranks = 64;
  ThreadRun run{on_meta(modelled_options(ranks))};
  CHECK(run([&](Rank& rank) {
          for (int i = 0; i < 20; ++i) rank.world.all_reduce(elements(1 << 20)).wait();
        }) == "");
  for (const auto& rank : run.ranks)
    CHECK(rank->transport->bytes_sent()[Operation::all_reduce] ==
          20 * 2 * 4 * (ranks - 1) * ((1 << 20) / ranks));
}

TEST_CASE("meta: groups recreated on the same channels share no state with the previous ones") {
  CHECK(cpu_against_meta(
            modelled_options(3, Cluster::load("classroom")), [](Rank& rank, const Note& note) {
              const int channels = rank.transport->open_channels(Group::channels_taken);
              for (int i = 0; i < 20; ++i) {
                Group group{rank.endpoint, {2, 0, 1}, "again", channels};
                Tensor data{rank.memory, {300}, MemoryCategory::communication};
                fill_with_zeros(rank.device, data);
                group.all_reduce(data).wait();
                note();
              }
            }) == "");
}

TEST_CASE("meta: ranks that call different collectives get an error that names both calls") {
  for (const Mismatch& mismatch : mismatches()) {
    CAPTURE(mismatch.name);
    auto words = mismatch.words;
    // The CPU compares messages and the meta device compares calls, so the texts of these two
    // errors differ.
    if (mismatch.name == "a collective left out")
      words = {"ranks disagree", "rank 3 calls all_reduce by tree of 32 bytes in world",
               "calls broadcast by binomial with member 0 as root of 32 bytes in world"};
    if (mismatch.name.starts_with("a gather of 9 and 10"))  // compared with any that came before
      words = {"ranks disagree", "calls gather of 40 bytes in world",
               "calls gather of 36 bytes in world"};
    if (mismatch.name == "everybody a root")
      words = {"ranks disagree", "calls broadcast with member"};
    CHECK(missing(failure_on_meta(4, [&](Rank& rank, ThreadRun&) { mismatch.body(rank); }),
                  words) == "");
  }
}

TEST_CASE("meta: a member that has finished, and one that dropped its call") {
  for (const int who : {0, 1, 2}) {
    std::atomic<int> line = 0;
    const std::string failure = failure_on_meta(3, [&](Rank& rank, ThreadRun&) {
      if (rank.id == who) return;
      line = __LINE__ + 1;
      rank.world.all_reduce(elements(8)).wait();
    });
    CHECK(missing(failure, {fmt::format("waits for rank {} to take part in all_reduce of world {}, "
                                        "which has finished",
                                        who, at_line(line))}) == "");

    const std::string dropped = failure_on_meta(3, [&](Rank& rank, ThreadRun&) {
      Work sum = rank.world.all_reduce(elements(8));
      if (rank.id != who) sum.wait();
    });
    // A third rank that has not joined yet but is still running does not hide the failure.
    const std::string other = failure_on_meta(4, [&](Rank& rank, ThreadRun& run) {
      if (rank.id == who) return;
      if (rank.id == (who + 1) % 3) return run.sleep_until_failure();
      rank.world.all_reduce(elements(8)).wait();
    });
    CHECK(missing(other, {fmt::format("rank {} to take part", who), "has finished"}) == "");
    // (The other ranks may have joined before rank `who` dropped its Work.)
    if (dropped != "")
      CHECK(missing(dropped, {fmt::format("rank {} to take part", who), "has finished"}) == "");
  }
}

TEST_CASE("meta: deadlocks are reported as the cycle of waiting ranks") {
  std::atomic<int> line = 0;
  const auto pair = [](Rank& rank, const char* name) {
    return Group{rank.endpoint, {0, 1}, name, rank.transport->open_channels(Group::channels_taken)};
  };
  const std::string groups = failure_on_meta(2, [&](Rank& rank, ThreadRun&) {
    Group a = pair(rank, "a");
    Group b = pair(rank, "b");
    line = __LINE__ + 1;
    (rank.id == 0 ? a : b).all_reduce(elements(8)).wait();
    (rank.id == 0 ? b : a).all_reduce(elements(8)).wait();
  });
  CHECK(groups ==
        "deadlock\n  rank 0 waits for rank 1 to take part in all_reduce of a " + at_line(line) +
            "\n  rank 1 waits for rank 0 to take part in all_reduce of b " + at_line(line));

  // Once rank 1 joins, the others wait for rank 2, which waits for a message from rank 0.
  std::latch others{2};
  const std::string message = failure_on_meta(3, [&](Rank& rank, ThreadRun&) {
    if (rank.id == 2) {
      others.wait();
      rank.world.receive(elements(5), 0).wait();
    } else if (rank.id == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{30});
    }
    Work sum = rank.world.all_reduce(elements(8));
    others.count_down();
    sum.wait();
  });
  CHECK(missing(message, {"deadlock\n", "rank 0 waits for rank 2 to take part in all_reduce",
                          "rank 2 waits for rank 0 to send 20 bytes"}) == "");

  // The cycle closes when rank 1 joins the all_reduce.
  const std::string late = failure_on_meta(3, [&](Rank& rank, ThreadRun& run) {
    if (rank.id == 2) rank.world.receive(elements(5), 0).wait();
    if (rank.id == 1) std::this_thread::sleep_for(std::chrono::milliseconds{60});
    Work sum = rank.world.all_reduce(elements(8));
    if (rank.id == 1) return run.sleep_until_failure();
    sum.wait();
  });
  CHECK(missing(late, {"deadlock\n", "rank 0 waits for rank 2 to take part in all_reduce",
                       "rank 2 waits for rank 0 to send 20 bytes"}) == "");
}

TEST_CASE("meta: a member that stalls, and one that throws") {
  const std::string stalled = failure_on_meta(
      4,
      [&](Rank& rank, ThreadRun& run) {
        if (rank.id == 2) return run.sleep_until_failure();
        rank.world.barrier().wait();
      },
      1);
  CHECK(missing(stalled, {"rank 2 has stalled", "to take part in barrier of world"}) == "");

  for (int repetition = 0; repetition < 100; ++repetition) {
    const std::string failure = failure_on_meta(4, [&](Rank& rank, ThreadRun&) {
      Group other{rank.endpoint,
                  {0, 1, 2, 3},
                  "other",
                  rank.transport->open_channels(Group::channels_taken)};
      std::vector<Work> works;  // destroyed in order of issue
      works.push_back(rank.world.all_reduce(elements(99)));
      works.push_back(other.all_reduce(elements(99), Algorithm::tree));
      works.push_back(rank.world.all_gather(elements(99)));
      if (rank.id == repetition % 4) throw std::runtime_error("out of luck");
      works[2].wait();
      works[1].wait();
      rank.world.barrier().wait();
    });
    CHECK(failure == fmt::format("rank {}: out of luck", repetition % 4));
  }
}

TEST_CASE("meta: dropping a call also drops later ones") {
  std::latch dropped{1};
  bool kept = false;
  const std::string failure = failure_on_meta(2, [&](Rank& rank, ThreadRun&) {
    if (rank.id == 0) {
      Work first = rank.world.all_reduce(elements(8));
      Work third;
      {
        Work second = rank.world.all_reduce(elements(8));
        third = rank.world.broadcast(elements(8), 0);
      }
      dropped.count_down();
      first.wait();
      kept = true;
      third.wait();
    } else {
      dropped.wait();
      rank.world.all_reduce(elements(8)).wait();
      rank.world.all_reduce(elements(8)).wait();
    }
  });
  CHECK(kept);
  CHECK(missing(failure, {"rank 0: the all_reduce of world (test_meta.cpp:",
                          "was dropped before it was done"}) == "");

  // Dropping a finished Work loses nothing, and the bytes that it sent are still counted.
  ThreadRun run{on_meta(modelled_options(3))};
  CHECK(run([&](Rank& rank) {
          for (int i = 0; i < 20; ++i) {
            Work first = rank.world.all_reduce(elements(9));
            rank.world.all_reduce(elements(9)).wait();  // completes the first all_reduce too
            if (i % 3 != rank.id) first.wait();
          }
        }) == "");
  for (const auto& rank : run.ranks) {
    CHECK(rank->transport->bytes_sent()[Operation::all_reduce] == 40 * 4 * 3 * 4);
    CHECK(rank->memory.current().total() == 0);
  }
}
