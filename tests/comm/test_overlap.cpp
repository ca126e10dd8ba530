#include <doctest/doctest.h>

#include <atomic>
#include <tuple>

#include "tests/support/collective_checks.h"
#include "tests/support/pipeline_checks.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// An event of a rank's timeline: its kind, lane, name, stage, microbatch, peer, start and end.
using Line = std::tuple<int, std::string, std::string, int, int, int, Picoseconds, Picoseconds>;
/// Returns all events of a rank, sorted so that the order of recording does not matter.
std::vector<Line> lines_of(Rank& rank) {
  std::vector<Line> lines;
  const auto lanes = rank.trace.lanes();
  for (const TraceEvent& event : rank.trace.drain())
    if (event.kind != TraceEvent::Kind::memory)
      lines.emplace_back(static_cast<int>(event.kind), lanes[static_cast<std::size_t>(event.lane)],
                         event.span.name, event.span.stage, event.span.microbatch, event.span.peer,
                         event.start, event.end);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// Threads that keep cores busy.
class Burners {
 public:
  explicit Burners(int count) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        while (!stop_) {
        }
      });
  }
  ~Burners() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("modelled: 1F1B over collectives on other groups: one timeline, under any load") {
  constexpr int ranks = 4;
  constexpr int m = 6;
  GptConfig config{.layers = 4, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 256};
  Cluster cluster;
  cluster.flops = 1e11;
  cluster.ranks_per_node = 2;
  cluster.within = {1e-6, 1e9};
  cluster.between = {3e-6, 4e8};
  Options options = modelled_options(ranks, cluster);
  set_model(options.plan, config);
  const Corpus corpus = small_corpus(config);

  const auto timeline = [&] {
    ThreadRun run{options};
    const std::string failure = run([&](Rank& rank) {
      Group other{rank.endpoint,
                  {3, 1, 0, 2},
                  "other",
                  rank.transport->open_channels(Group::channels_taken)};
      const int pairs = rank.transport->open_channels(2 * Group::channels_taken);
      Group pair{rank.endpoint,
                 {rank.id / 2 * 2, rank.id / 2 * 2 + 1},
                 "pair",
                 pairs + rank.id / 2 * Group::channels_taken};
      Gpt stage{config, rank.device, StageLayers::of(config, rank.id, rank.count), 1};
      PipelineExecutor pipeline{
          rank.endpoint, rank.world, one_f_one_b(ranks, m), {&stage}, stage_boundary(config, 1)};
      std::vector<float> before(777), through(1500), sums(99);
      for (int step = 0; step < 2; ++step) {
        Work one = rank.world.all_reduce(view(before), Algorithm::rabenseifner);
        Work two = other.all_reduce(view(through));
        Work three = pair.all_gather(view(sums));
        pipeline.step(corpus.batch(1, step, {.microbatches = m, .size = 1}));
        Work four = rank.world.broadcast(view(sums), step);
        two.wait();
        three.wait();
        four.wait();
        one.wait();
      }
    });
    CHECK(failure == "");
    std::vector<std::vector<Line>> all;
    for (auto& rank : run.ranks) all.push_back(lines_of(*rank));
    return all;
  };

  const auto first = timeline();
  CHECK(first[0].size() > 100);
  CHECK(first[1] != first[2]);
  const Burners burners{3};
  for (int repetition = 0; repetition < 60; ++repetition) {
    const auto again = timeline();
    for (std::size_t rank = 0; rank < ranks; ++rank) CHECK((again[rank] == first[rank]));
  }
}
