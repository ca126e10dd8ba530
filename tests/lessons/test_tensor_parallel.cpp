#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/model/fixture.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"
#include "tests/support/tensor_checks.h"

// Tensor and sequence parallelism with ranks as threads. tests/mpi runs the same checks with ranks
// as processes.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Prints the deviations from one device, for the record, if LOCKSTEP_SHOW_PARITY is set.
void show(const Options& options, Sharing sharing, const Deviation& deviation) {
  if (std::getenv("LOCKSTEP_SHOW_PARITY") == nullptr) return;
  fmt::print("{:<10} t {} {}{}: losses {:.1e}, parameters {:.1e}, first gradients {:.1e}\n",
             name_of(sharing), options.plan.mesh.size(Axis::tp),
             name_of(options.plan.model().dtype), options.plan.model().tied ? ", tied" : "",
             deviation.loss, deviation.parameter, deviation.gradient);
}

/// Checks a run against one device, and against a second run, which must be bitwise identical.
Outcome check_twice(const Options& options, Sharing sharing) {
  CAPTURE(name_of(sharing));
  CAPTURE(options.plan.mesh.size(Axis::tp));
  Outcome outcomes[2];
  Deviation deviation;
  for (Outcome& outcome : outcomes)
    CHECK(on_all(options, [&](Rank& rank) {
            return check_tensors(rank, options, sharing, rank.id == 0 ? &outcome : nullptr,
                                 rank.id == 0 ? &deviation : nullptr);
          }) == "");
  CHECK(compare(outcomes[0].losses, outcomes[0].parameters,
                {outcomes[1].losses, outcomes[1].parameters})
            .bitwise);
  show(options, sharing, deviation);
  return outcomes[0];
}

}  // namespace

TEST_CASE("tensor and sequence parallelism: near one device, bytes and memory as derived") {
  for (const auto& [sharing, t] :
       portion(combinations(all_sharings, std::vector{3, 4, 2, 8, 1}), 6))
    check_twice(small_tensors(t, sharing), sharing);
}

TEST_CASE("inputs that are gathered again have the bits of inputs that are kept") {
  const Outcome kept = check_twice(small_tensors(3, Sharing::sequence), Sharing::sequence);
  const Outcome again = check_twice(small_tensors(3, Sharing::regathered), Sharing::regathered);
  CHECK(compare(kept.losses, kept.parameters, {again.losses, again.parameters}).bitwise);
}

TEST_CASE("tensor and sequence parallelism with tied weights and several microbatches") {
  for (const auto& [sharing, t] : portion(combinations(all_sharings, std::vector{2, 3}), 3)) {
    Options options = small_tensors(t, sharing);
    set_model(options.plan, &GptConfig::tied, true);
    set_model(options.plan, &GptConfig::vocabulary, 256);
    options.plan.batch.microbatches = 2;
    set_model(options.plan, &GptConfig::layers, 3);
    check_twice(options, sharing);
  }
}

TEST_CASE("replicas of tensor- and sequence-parallel ranks, in any order of the axes") {
  const std::vector orders{"tp,cp,dp,pp", "dp,tp,cp,pp"};
  for (const auto& [sharing, order] : portion(combinations(all_sharings, orders), 3)) {
    CAPTURE(order);
    Options options = small_tensors(2, sharing);
    options.plan.set_mesh(Mesh{6, {2, 1, 3, 1}, order});
    options.plan.batch.sequences = 6;
    check_twice(options, sharing);
  }
}

TEST_CASE("tensor and sequence parallelism in bf16") {
  for (const auto& [sharing, t] : portion(combinations(all_sharings, std::vector{2, 3, 8}), 3)) {
    Options options = small_tensors(t, sharing);
    set_model(options.plan, &GptConfig::dtype, DType::bf16);
    check_twice(options, sharing);
  }
}

TEST_CASE("bytes per rank, layer and microbatch: 8 b s h (t-1)/t elements; regathered: 10") {
  for (const Sharing sharing : all_sharings)
    for (const int t : {2, 3, 4, 8})
      for (const int m : {1, 2}) {
        const auto sent = [&](int layers) {
          Options options = small_tensors(t, sharing);
          set_model(options.plan, &GptConfig::layers, layers);
          options.plan.batch.microbatches = m;
          std::vector<std::int64_t> totals(static_cast<std::size_t>(t));
          CHECK(on_threads(options, [&](Rank& rank) {
                  SharedLayers shared{rank, options, sharing};
                  shared.backward(copies_corpus(options.plan.model()), 0);
                  totals[static_cast<std::size_t>(rank.id)] = total(rank.transport->bytes_sent());
                }) == "");
          return totals;
        };
        const auto three = sent(3), two = sent(2);
        const Options options = small_tensors(t, sharing);
        const std::int64_t b = options.plan.batch.sequences / m, s = options.plan.model().sequence,
                           h = options.plan.model().hidden;
        const std::int64_t per_microbatch =
            (sharing == Sharing::regathered ? 10 : 8) * b * s * h * (t - 1) / t;
        // Once per step, sequence parallelism sums the gradients of two LayerNorms, 4 h elements.
        const std::int64_t per_step = sharing == Sharing::tensor ? 0 : 2 * 4 * h * (t - 1) / t;
        for (std::size_t rank = 0; rank < three.size(); ++rank)
          CHECK(three[rank] - two[rank] == 4 * (m * per_microbatch + per_step));
      }
}

TEST_CASE("padding of the vocabulary stays zero, in the values and in the gradients") {
  Options options = small_tensors(3, Sharing::tensor);  // 257 tokens are padded to 258
  std::int64_t padding = 0;
  CHECK(on_threads(options, [&](Rank& rank) {
          SharedLayers shared{rank, options, Sharing::tensor};
          for (int step = 0; step < 3; ++step) {
            shared.backward(copies_corpus(options.plan.model()), step);
            shared.update();
          }
          if (rank.id != 2) return;
          for (const Parameter* each : shared.model().parameters()) {
            if (each->slice.elements() == each->slice.local().elements()) continue;
            for (const View& view : {each->value, each->gradient}) {
              const std::vector<float> all = to_host(rank.device, view);
              for (std::int64_t i = each->slice.elements(); i < view.elements(); ++i) {
                if (all[static_cast<std::size_t>(i)] != 0) throw RunError("padding was trained");
                ++padding;
              }
            }
          }
        }) == "");
  CHECK(padding == 2 * 2 * 48);  // one row in the table and in the head, value and gradient
}

TEST_CASE("random shapes: bytes, what is saved and every memory peak, to the byte") {
  std::mt19937 random{21};
  const auto up_to = [&](int n) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(n));
  };
  for (int trial = 0; trial < 120; ++trial) {
    const Sharing sharing = all_sharings[trial % 3];
    const int t = up_to(6), m = up_to(3);
    Options options = on_meta(small_tensors(t, sharing));
    options.output.trace = "none";
    GptConfig model{.layers = up_to(4),
                    .hidden = 0,
                    .heads = t * up_to(3),
                    .sequence = t * up_to(5),
                    .vocabulary = 256 + up_to(200),
                    .tied = up_to(2) == 1};
    model.hidden = model.heads * up_to(9);
    model.dtype = trial % 2 == 0 ? DType::f32 : DType::bf16;
    set_model(options.plan, model);
    options.plan.batch.microbatches = m;
    options.plan.batch.sequences = m * up_to(3);
    CAPTURE(trial);
    CAPTURE(name_of(sharing));
    CAPTURE(t);
    CHECK(on_all(options, [&](Rank& rank) {
            std::string wrong;
            const GptConfig& config = rank.plan.model();
            const Batch batch = copies_corpus(config).batch(1, 0, rank.plan.samples(rank.place));
            SharedLayers shared{rank, options, sharing};
            Stash stash;
            shared.model().forward(batch.microbatches.front(), {}, stash);
            const Divisors parts = sharing == Sharing::tensor
                                       ? tensor_divisors(t)
                                       : sequence_divisors(t, sharing == Sharing::regathered);
            const TensorSizes sizes{rank.plan, rank.place};
            const std::int64_t saved =
                config.layers * tensor_saved_per_block(sizes, config, parts) +
                tensor_saved_by_head(sizes, config, parts);
            const std::int64_t seen = rank.memory.current().of(MemoryCategory::activations);
            if (seen != saved)
              wrong += fmt::format("rank {}: {} bytes saved, derived {}\n", rank.id, seen, saved);
            shared.model().backward({}, stash);
            for (int step = 0; step < 2; ++step) {
              const BytesSent before = rank.transport->bytes_sent();
              rank.memory.reset_peak();
              shared.backward(copies_corpus(config), step);
              shared.update();
              compare_with_prediction(rank, before, shared.predicted, [&](const std::string& what) {
                wrong += fmt::format("rank {}: {}\n", rank.id, what);
              });
            }
            return wrong;
          }) == "");
  }
}

TEST_CASE("the paper's five formulas for activations, at the 22B and 530B shapes") {
  struct Shape_ {
    GptConfig config;
    int batch;
  };
  const Shape_ shapes[] = {
      {{.layers = 48, .hidden = 6144, .heads = 64, .sequence = 2048, .vocabulary = 51200}, 4},
      {{.layers = 105, .hidden = 20480, .heads = 128, .sequence = 2048, .vocabulary = 51200}, 1}};
  constexpr int t = 8;
  for (const auto& [config, batch] : shapes) {
    const double s = config.sequence, b = batch, h = config.hidden, a = config.heads;
    const double sbh = s * b * h;
    const auto is = [&](Saving saving, double formula) {
      CHECK(paper_bytes(config, batch, t, saving) == doctest::Approx(formula).epsilon(1e-12));
    };
    is(Saving::none, sbh * (34 + 5 * a * s / h));
    is(Saving::tensor, sbh * (10 + 24.0 / t + 5 * a * s / (h * t)));
    is(Saving::sequence, sbh / t * (34 + 5 * a * s / h));
    is(Saving::selective, 34 * sbh / t);
    is(Saving::full, 2 * sbh);
  }
  // Per layer and sequence, from the formulas: 22B without parallelism is 2048 * 6144 * (34 + 5 *
  // 64 * 2048 / 6144) bytes.
  CHECK(paper_bytes(shapes[0].config, 1, t, Saving::none) == doctest::Approx(1'769'996'288.0));
}

TEST_CASE("meta: tensor and sequence parallelism match the CPU's times, bytes, memory and trace") {
  for (const Sharing sharing : all_sharings)
    for (const int t : {1, 2, 3}) {
      CAPTURE(name_of(sharing));
      CAPTURE(t);
      Options options = small_tensors(t, sharing);
      options.run.steps = 2;
      set_model(options.plan, &GptConfig::tied, t == 2);
      options.plan.batch.microbatches = t == 3 ? 2 : 1;
      options.output.kernels = true;
      Cluster cluster = Cluster::load("classroom");
      cluster.ranks_per_node = 2;
      options.plan.modelled = {cluster};
      CHECK(training_against_meta<SharedLayers>(options, copies_corpus(options.plan.model()),
                                                sharing) == "");
    }
}

TEST_CASE("impossible divisions: the message names the flags and the nearest values that work") {
  const auto complaint = [](int heads, int hidden, int t) {
    Plan plan{{.hidden = hidden, .heads = heads}, Mesh{t, {t, 1, 1, 1}}};
    return lockstep::test::usage_error([&] { plan.validate(); });
  };
  CHECK(complaint(6, 96, 4) ==
        "--tp 4 with --heads 6: 6 heads do not divide into 4 equal groups; use --tp 3, --tp 6, "
        "--heads 4 or --heads 8");
  CHECK(complaint(4, 64, 3) ==
        "--tp 3 with --heads 4: 4 heads do not divide into 3 equal groups; use --tp 2, --tp 4 or "
        "--heads 6 with --hidden 66");
  CHECK(
      complaint(2, 64, 4) ==
      "--tp 4 with --heads 2: 2 heads do not divide into 4 equal groups; use --tp 2 or --heads 4");
}
