#include <doctest/doctest.h>

#include <cstdlib>
#include <numeric>
#include <random>

#include "tests/model/fixture.h"
#include "tests/support/context_checks.h"
#include "tests/support/meta_checks.h"
#include "tests/support/portion.h"

// Ring attention, Ulysses and gathered keys with ranks as threads. tests/mpi runs the same checks
// with ranks as processes; test_ring_times.cpp tests modelled times.

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// Prints the deviations from one device, for the record, if LOCKSTEP_SHOW_PARITY is set.
void show(const Options& options, const Sequences& sequences, const Deviation& deviation) {
  if (std::getenv("LOCKSTEP_SHOW_PARITY") == nullptr) return;
  fmt::print("{:<20} N {} {}{}: losses {:.1e}, parameters {:.1e}, first gradients {:.1e}\n",
             name_of(sequences), options.plan.mesh.size(Axis::cp),
             name_of(options.plan.model().dtype), options.plan.model().tied ? ", tied" : "",
             deviation.loss, deviation.parameter, deviation.gradient);
}

/// Checks a run against one device, and against a second run, which must be bitwise identical.
Outcome check_twice(const Options& options, const Sequences& sequences) {
  CAPTURE(name_of(sequences));
  CAPTURE(options.plan.mesh.size(Axis::cp));
  Outcome outcomes[2];
  Deviation deviation;
  for (Outcome& outcome : outcomes)
    CHECK(on_all(options, [&](Rank& rank) {
            return check_sequences(rank, options, sequences, rank.id == 0 ? &outcome : nullptr,
                                   rank.id == 0 ? &deviation : nullptr);
          }) == "");
  CHECK(compare(outcomes[0].losses, outcomes[0].parameters,
                {outcomes[1].losses, outcomes[1].parameters})
            .bitwise);
  show(options, sequences, deviation);
  return outcomes[0];
}

}  // namespace

TEST_CASE("context parallelism: near one device, bytes and memory as derived") {
  for (const auto& [sequences, n] :
       portion(combinations(all_sequences, std::vector{3, 4, 2, 8}), 6))
    check_twice(small_sequences(n, sequences), sequences);
  check_twice(small_sequences(1, all_sequences[0]), all_sequences[0]);
}

TEST_CASE("context parallelism with tied weights and several microbatches") {
  for (const auto& [sequences, n] : portion(combinations(all_sequences, std::vector{2, 3}), 6)) {
    Options options = small_sequences(n, sequences);
    set_model(options.plan, &GptConfig::tied, true);
    options.plan.batch.microbatches = 2;
    options.plan.batch.sequences = 4;
    check_twice(options, sequences);
  }
}

TEST_CASE("context parallelism in bf16") {
  for (const auto& [sequences, n] : portion(combinations(all_sequences, std::vector{2, 3, 8}), 6)) {
    Options options = small_sequences(n, sequences);
    set_model(options.plan, &GptConfig::dtype, DType::bf16);
    check_twice(options, sequences);
  }
}

TEST_CASE("each pair of positions is in exactly one rank's block, if causality allows it at all") {
  for (const ContextLayout layout :
       {ContextLayout::contiguous, ContextLayout::zigzag, ContextLayout::striped})
    for (const int n : {2, 3, 5}) {
      const int s = 4 * n;
      const std::int64_t c = s / n;
      std::vector<std::vector<int>> positions;
      for (int rank = 0; rank < n; ++rank) {
        auto& mine = positions.emplace_back();
        for (const auto& [begin, end] : context_positions(layout, s, rank, n))
          for (int i = begin; i < end; ++i) mine.push_back(i);
        CHECK(std::is_sorted(mine.begin(), mine.end()));  // so a rank's own mask is the usual one
      }
      for (int self = 0; self < n; ++self)
        for (int source = 0; source < n; ++source) {
          if (self == source) continue;
          const AttentionBlock block = visible_block(layout, self, source, c);
          for (std::int64_t i = 0; i < c; ++i)
            for (std::int64_t j = 0; j < c; ++j) {
              const bool inside = i >= block.first_query && i < block.first_query + block.queries &&
                                  j >= block.first_key && j < block.first_key + block.keys &&
                                  (!block.causal || j - block.first_key <= i - block.first_query);
              const auto position = [&](int rank, std::int64_t at) {
                return positions[static_cast<std::size_t>(rank)][static_cast<std::size_t>(at)];
              };
              CHECK(inside == (position(source, j) < position(self, i)));
            }
        }
    }
}

TEST_CASE("bytes per rank, layer and microbatch: K and V 2 (N-1) hops, dK and dV N hops") {
  for (const Sequences& sequences : all_sequences)
    for (const int n : {2, 3, 4})
      for (const int m : {1, 2}) {
        CAPTURE(name_of(sequences));
        CAPTURE(n);
        const auto sent = [&](int layers) {
          Options options = small_sequences(n, sequences);
          set_model(options.plan, &GptConfig::layers, layers);
          options.plan.batch.microbatches = m;
          std::vector<BytesSent> all(static_cast<std::size_t>(n));
          CHECK(on_threads(options, [&](Rank& rank) {
                  SharedSequences shared{rank, options};
                  shared.backward(copies_corpus(options.plan.model()), 0);
                  all[static_cast<std::size_t>(rank.id)] = rank.transport->bytes_sent();
                }) == "");
          return all;
        };
        const auto three = sent(3), two = sent(2);
        const Options options = small_sequences(n, sequences);
        const std::int64_t bsh = options.plan.batch.sequences / m *
                                 std::int64_t{options.plan.model().sequence} *
                                 options.plan.model().hidden;
        for (std::size_t rank = 0; rank < three.size(); ++rank) {
          const BytesSent layer = three[rank] - two[rank];
          const auto is = [&](Operation operation, std::int64_t elements) {
            CHECK(layer[operation] == 4 * m * elements);
          };
          const bool ring = sequences.method == ContextMethod::ring;
          const bool ulysses = sequences.method == ContextMethod::ulysses;
          const std::int64_t keys = 2 * bsh / n;  // K and V of one rank
          is(Operation::send, ring ? (2 * (n - 1) + n) * keys : 0);
          is(Operation::all_to_all, ulysses ? 8 * bsh / n * (n - 1) / n : 0);
          is(Operation::all_gather, ring || ulysses ? 0 : 2 * (n - 1) * keys);
          is(Operation::reduce_scatter, ring || ulysses ? 0 : (n - 1) * keys);
        }
      }
}

TEST_CASE("N ranks with N times the sequence: activations and messages constant, to the byte") {
  for (const Sequences& sequences : all_sequences)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(name_of(sequences));
      std::vector<MemoryUse> peaks;
      for (const int n : {2, 4, 8, 16}) {
        Options options = on_meta(small_sequences(n, sequences));
        options.output.trace = "none";
        set_model(options.plan, &GptConfig::heads, 16);
        set_model(options.plan, &GptConfig::dtype, dtype);
        set_model(options.plan, &GptConfig::sequence, 6 * n);
        MemoryUse peak;
        CHECK(on_threads(options, [&](Rank& rank) {
                SharedSequences shared{rank, options};
                rank.memory.reset_peak();
                shared.backward(copies_corpus(options.plan.model()), 0);
                shared.update();
                if (rank.id == n - 1) peak = rank.memory.peak();
              }) == "");
        peaks.push_back(peak);
      }
      for (const MemoryUse& peak : peaks) {
        CHECK(peak.of(MemoryCategory::activations) == peaks[0].of(MemoryCategory::activations));
        const std::int64_t messages = peak.of(MemoryCategory::communication);
        const std::int64_t first = peaks[0].of(MemoryCategory::communication);
        if (sequences.method == ContextMethod::gather)  // all of the sequence's keys
          CHECK((messages == first) == (&peak == &peaks[0]));
        else
          CHECK(messages == first);
      }
    }
}

TEST_CASE("random shapes: bytes and every memory peak are as predicted") {
  std::mt19937 random{13};
  const auto up_to = [&](int n) {
    return 1 + static_cast<int>(random() % static_cast<unsigned>(n));
  };
  for (int trial = 0; trial < 120; ++trial) {
    const Sequences& sequences = all_sequences[static_cast<std::size_t>(trial) % 6];
    const int n = up_to(7), m = up_to(3);
    Options options = on_meta(small_sequences(n, sequences));
    options.output.trace = "none";
    GptConfig model{.layers = up_to(4),
                    .hidden = 0,
                    .heads = n * up_to(3),
                    .sequence = 2 * n * up_to(9),
                    .vocabulary = 256 + up_to(200),
                    .tied = up_to(2) == 1};
    model.hidden = model.heads * up_to(9);
    model.dtype = trial % 4 < 2 ? DType::f32 : DType::bf16;
    set_model(options.plan, model);
    options.plan.batch.microbatches = m;
    options.plan.batch.sequences = m * up_to(3);
    CAPTURE(trial);
    CAPTURE(name_of(sequences));
    CAPTURE(n);
    CAPTURE(m);
    CHECK(on_all(options, [&](Rank& rank) {
            std::string wrong;
            SharedSequences shared{rank, options};
            for (int step = 0; step < 2; ++step) {
              const BytesSent before = rank.transport->bytes_sent();
              rank.memory.reset_peak();
              shared.backward(copies_corpus(options.plan.model()), step);
              shared.update();
              compare_with_prediction(rank, before, shared.predicted, [&](const std::string& what) {
                wrong += fmt::format("rank {}: {}\n", rank.id, what);
              });
            }
            return wrong;
          }) == "");
  }
}

TEST_CASE("meta: context parallelism matches the CPU's times, bytes, memory and trace") {
  for (const Sequences& sequences : all_sequences)
    for (const int n : {1, 2, 3}) {
      CAPTURE(name_of(sequences));
      CAPTURE(n);
      Options options = small_sequences(n, sequences);
      options.run.steps = 2;
      set_model(options.plan, &GptConfig::tied, n == 2);
      options.plan.batch.microbatches = n == 3 ? 2 : 1;
      options.output.kernels = true;
      Cluster cluster = Cluster::load("classroom");
      cluster.ranks_per_node = 2;
      options.plan.modelled = {cluster};
      CHECK(training_against_meta<SharedSequences>(options, copies_corpus(options.plan.model())) ==
            "");
    }
}

TEST_CASE("gathered keys give the ring's bits in the forward pass") {
  for (const ContextLayout layout :
       {ContextLayout::contiguous, ContextLayout::zigzag, ContextLayout::striped}) {
    std::vector<double> losses;
    for (const ContextMethod method : {ContextMethod::ring, ContextMethod::gather}) {
      Options options = small_sequences(4, {method, layout});
      options.run.steps = 1;
      CHECK(on_threads(options, [&](Rank& rank) {
              SharedSequences shared{rank, options};
              const double loss = shared.backward(copies_corpus(options.plan.model()), 0);
              if (rank.id == 2) losses.push_back(loss);
            }) == "");
    }
    CHECK(losses[0] == losses[1]);
  }
}

TEST_CASE("impossible divisions of a sequence: the message names the nearest that work") {
  const auto complaint = [](int sequence, int n, ContextLayout layout) {
    Plan plan{{.sequence = sequence}, Mesh{n, {1, n, 1, 1}}};
    plan.batch.context = layout;
    return lockstep::test::usage_error([&] { plan.validate(); });
  };
  CHECK(complaint(62, 4, ContextLayout::contiguous) ==
        "--sequence 62 with --cp 4: 62 positions do not divide into 4 equal chunks; use --sequence "
        "60 or --sequence 64");
  CHECK(complaint(68, 4, ContextLayout::zigzag) ==
        "--sequence 68 with --cp 4: 68 positions do not divide into 8 equal chunks; use --sequence "
        "64 or --sequence 72");
  CHECK(complaint(3, 4, ContextLayout::contiguous) ==
        "--sequence 3 with --cp 4: 3 positions do not divide into 4 equal chunks; use --sequence "
        "4");
}
