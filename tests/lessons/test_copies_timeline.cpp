#include <doctest/doctest.h>

#include "core/pipeline/pipeline_prediction.h"
#include "tests/support/copies_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/ranks.h"
#include "tests/support/timeline_of.h"
#include "viz/read/timeline/step_account.h"

// Tests when data parallelism and ZeRO communicate, and how much of the communication overlaps with
// compute.

using namespace lockstep;
using namespace lockstep::testing;

// Runs on the meta device, whose timeline is the CPU's (test_meta.cpp).
TEST_CASE("with communication as long as backward, overlap leaves little of it exposed") {
  for (const int ranks : {2, 4, 8}) {
    for (const int layers : {8, 16}) {
      CAPTURE(ranks);
      CAPTURE(layers);
      Options options = on_meta(small_copies(ranks));
      set_model(options.plan, {.layers = layers, .hidden = 128, .heads = 2, .sequence = 16});
      set_model(options.plan, &GptConfig::vocabulary, 256);
      options.run.steps = 1;
      Cluster cluster;
      cluster.flops = 1e12;
      // Returns the duration of one step in seconds, and the bytes that a rank sends in that step.
      const auto step = [&](Scheme scheme) {
        options.plan.modelled = {cluster};
        std::pair<double, std::int64_t> result;
        ThreadRun run{options};
        CHECK(run([&](Rank& rank) {
                Copies copies{rank, options, scheme, unit_buckets};
                const Picoseconds begin = rank.compute.now();
                copies.backward(copies_corpus(options.plan.model()), 0);
                copies.update();
                if (rank.id == 0)
                  result = {seconds(rank.compute.now() - begin),
                            rank.transport->bytes_sent()[Operation::all_reduce]};
              }) == "");
        return result;
      };
      const auto [computing, bytes] = step(Scheme::overlap);
      const double backward =
          seconds(stage_times(options.plan.on_one_device(), 0, /*microbatches=*/ranks).backward);
      cluster.within.bandwidth = static_cast<double>(bytes) / backward;
      const double after = step(Scheme::bucket).first - computing;
      const double exposed = step(Scheme::overlap).first - computing;
      CHECK(after == doctest::Approx(backward).epsilon(1e-3));  // nothing is hidden
      CHECK(exposed / backward <= 0.15);
      CHECK(exposed > 0);  // the last bucket has no compute left to overlap with
      MESSAGE(fmt::format("{} ranks, {} buckets: {:.1f} % exposed", ranks, layers + 2,
                          exposed / backward * 100));
    }
  }
}

TEST_CASE("a modelled step is compute and exposed communication, whose parts follow the cluster") {
  for (const Scheme scheme : all_schemes) {
    for (const bool has_latency : {false, true}) {
      for (const bool has_bandwidth : {false, true}) {
        CAPTURE(name_of(scheme));
        CAPTURE(has_latency);
        CAPTURE(has_bandwidth);
        Options options = small_copies(4);
        Cluster cluster;
        cluster.flops = 1e12;
        cluster.launch_seconds = 1e-6;
        if (has_latency) cluster.within.latency_seconds = 3e-6;
        if (has_bandwidth) cluster.within.bandwidth = 1e9;
        options.plan.modelled = {cluster};
        ThreadRun run{options};
        CHECK(run([&](Rank& rank) {
                Copies copies{rank, options, scheme, unit_buckets};
                for (int step = 0; step < 2; ++step) {
                  rank.trace.set_step(step);
                  rank.compute.range({.name = "step", .category = Category::step}, [&] {
                    copies.backward(copies_corpus(options.plan.model()), step);
                    copies.update();
                  });
                }
              }) == "");
        const Timeline timeline = timeline_of(run);
        for (int step = 0; step < 2; ++step) {
          const StepAccount account = step_account(timeline, step);
          REQUIRE(account.ranks.size() == 4);
          for (const RankAccount& each : account.ranks) {
            const Exposed exposed = each.sums.exposed();
            CHECK(each.sums.compute > 0);
            CHECK(each.sums.total() == account.length);
            CHECK((exposed.latency > 0) == has_latency);  // each rank waits for the last bucket
            CHECK((exposed.transfer > 0) == has_bandwidth);
          }
        }
      }
    }
  }
}

TEST_CASE("prefetching hides the all-gathers; without it every all-gather is exposed") {
  Options options = small_copies(4);
  set_model(options.plan,
            {.layers = 8, .hidden = 64, .heads = 2, .sequence = 32, .vocabulary = 256});
  const auto step = [&](Scheme scheme, int prefetch) {
    Picoseconds time = 0;
    ThreadRun run{options};
    CHECK(run([&](Rank& rank) {
            Copies copies{rank, options, scheme, unit_buckets, prefetch};
            const Picoseconds begin = rank.compute.now();
            copies.backward(copies_corpus(options.plan.model()), 0);
            copies.update();
            if (rank.id == 0) time = rank.compute.now() - begin;
          }) == "");
    return seconds(time);
  };
  const double none = step(Scheme::zero_3, 0), one = step(Scheme::zero_3, 1);
  const double gathers =
      2 * 0.75 * 4 * 436'864 / 1.25e10;  // the time of all all-gathers, at this cluster's 100 Gb/s
  CHECK(none - one > 0.5 * gathers);
  CHECK(step(Scheme::zero_3, 2) <= one);
  CHECK(one < step(Scheme::zero_1, 0));  // none of ZeRO-1's all-gathers overlap
}
