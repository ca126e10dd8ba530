#include <doctest/doctest.h>

#include <mutex>
#include <random>

#include "tests/support/copies_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/pipeline_checks.h"

// Runs whole training schemes on the meta device. Times, bytes, peak memory and trace match those
// of the CPU on the modelled clock, and even models that are too large for any machine can run.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Random settings for a small model and for the cluster. The ranks of `options` are either all
/// replicas or all stages.
class RandomSettings {
 public:
  explicit RandomSettings(unsigned seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  Options options(Axis axis, int ranks) {
    Options options;
    options.plan.set_mesh(Mesh::along(axis, ranks));
    set_model(options.plan, {.layers = ranks + below(3),
                             .hidden = 4 * (1 + below(4)),
                             .heads = 1 + below(2),
                             .sequence = 3 + below(9),
                             .vocabulary = 256 + below(3),
                             .tied = below(2) == 0});
    if (below(3) == 0) set_model(options.plan, &GptConfig::frozen, {below(ranks + 1)});
    if (below(3) == 0)
      set_model(options.plan, &GptConfig::dtype, below(2) == 0 ? DType::bf16 : DType::f16);
    options.plan.batch.microbatches = 1 + below(3);
    options.plan.batch.sequences = options.plan.batch.microbatches * ranks * (1 + below(2));
    options.run.steps = 2;
    options.output.kernels = below(3) == 0;
    Cluster cluster;
    cluster.nodes = 2;
    cluster.ranks_per_node = below(2) == 0 ? ranks : (ranks + 1) / 2;
    cluster.flops = 1e10;
    cluster.memory_bandwidth = 3e10;
    cluster.launch_seconds = 1e-7 * below(2);
    cluster.within = {1.3e-7, 3.7e9};
    cluster.between = {1.1e-6, 4.1e8};
    options.plan.modelled = {
        cluster, below(4) == 0 ? FixedTimes::parse("forward=3us,backward=7us") : FixedTimes{}};
    return options;
  }

 private:
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("meta: data parallelism and ZeRO in random settings match the CPU") {
  constexpr Scheme schemes[] = {Scheme::bucket, Scheme::overlap, Scheme::zero_1,
                                Scheme::zero_2, Scheme::zero_3,  Scheme::tensors};
  for (unsigned seed = 1; seed <= 48; ++seed) {
    RandomSettings settings{seed};
    const Scheme scheme = schemes[seed % 6];
    const int ranks = 1 + settings.below(6);
    Options options = settings.options(Axis::dp, ranks);
    const std::int64_t bucket = settings.below(2) == 0 ? 1 : 5'000;
    const int prefetch = settings.below(4);
    CAPTURE(seed);
    CAPTURE(name_of(scheme));
    CHECK(training_against_meta<Copies>(options, copies_corpus(options.plan.model()), scheme,
                                        bucket, prefetch) == "");
  }
}

TEST_CASE("meta: pipelines in random settings match the CPU") {
  for (unsigned seed = 1; seed <= 32; ++seed) {
    RandomSettings settings{seed};
    const int ranks = 1 + settings.below(6);
    Options options = settings.options(Axis::pp, ranks);
    options.plan.optimizer.clip = settings.below(2) == 0 ? 0.0F : 1.0F;
    const auto generate = settings.below(2) == 0 ? gpipe : one_f_one_b;
    const int m = options.plan.batch.microbatches;
    CAPTURE(seed);
    CHECK(cpu_against_meta(options, [&](Rank& rank, const Note& note) {
            const Corpus corpus = small_corpus(options.plan.model());
            Group& ranks_of_pipeline = rank.group(Axis::pp);
            Gpt stage{rank.plan, rank.place, rank.device};
            AdamW optimizer{stage.parameters(), rank.device, options.plan.optimizer};
            PipelineUpdate update{rank.endpoint, ranks_of_pipeline, rank.plan, {&stage}, optimizer};
            PipelineExecutor pipeline{rank.endpoint,
                                      ranks_of_pipeline,
                                      generate(rank.count, m),
                                      {&stage},
                                      rank.plan.boundary(m)};
            for (int step = 0; step < options.run.steps; ++step) {
              rank.trace.set_step(step);
              stage.zero_gradients();
              pipeline.step(
                  corpus.batch(options.plan.seed, step,
                               {.microbatches = m, .size = options.plan.batch.sequences / m}));
              note();
              update.step();
              note();
            }
          }) == "");
  }
}

TEST_CASE("meta: GPT-3 on 64 ranks with ZeRO-3 holds the bytes of the formulas") {
  Options options = on_meta(small_copies(64));
  options.output.trace = "none";
  set_model(options.plan,
            {.layers = 96, .hidden = 12288, .heads = 96, .sequence = 64, .vocabulary = 50257});
  options.plan.batch.sequences = 64;
  options.run.steps = 1;
  options.plan.modelled = {Cluster::load("a100")};
  std::mutex mutex;
  std::string wrong;
  ThreadRun run{options};
  CHECK(run([&](Rank& rank) {
          const Corpus corpus = copies_corpus(options.plan.model());
          Copies copies{rank, options, Scheme::zero_3, 1};
          rank.memory.reset_peak();
          copies.backward(corpus, 0);
          copies.update();
          std::lock_guard lock{mutex};
          for (int i = 0; i < memory_category_count; ++i) {
            const auto category = static_cast<MemoryCategory>(i);
            if (rank.memory.peak().of(category) != *copies.predicted.peak_bytes[category])
              wrong += fmt::format("rank {}: {}\n", rank.id, lockstep::name_of(category));
          }
          if (rank.transport->bytes_sent() != bytes_of(copies.predicted))
            wrong += fmt::format("rank {}: bytes sent\n", rank.id);
        }) == "");
  CHECK(wrong == "");
}
