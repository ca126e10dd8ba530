#include "core/dry_run/dry_run.h"

#include <doctest/doctest.h>

#include <memory>

#include "core/run/options/options.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/10_interleaved/interleaved.h"
#include "lessons/16_all_axes/prediction.h"
#include "tests/support/bytes.h"

// Bytes and peaks of compositions, worked by hand, against those of the dry run.
//
// One model for all cases: h = 8, a = 2 heads, s = 4 tokens, V = 16, an untied head, f32. A
// microbatch is one sequence, so a tensor between layers has F = s h = 32 elements, 128 B.
// Elements:
//   embedding       V h + s h        = 128 + 32         = 160
//   block           12 h² + 13 h     = 768 + 104        = 872
//   LayerNorm, head 2 h + V h        = 16 + 128         = 144
// With two blocks: 160 + 2 * 872 + 144 = 2048. AdamW has 8 B per element, and every unit has its
// own bucket of gradients, whose elements all divide by 8: there is no padding.
//
// A ring of 2 sends n elements per all-reduce, and n/2 per reduce-scatter or all-gather, if n is
// even.
using namespace lockstep;
using namespace lockstep::testing;

namespace {

RoutingLog no_log;

struct Case {
  Options options;
  AllAxes chosen;
  explicit Case(int layers = 2) {
    options.run.model = {
        .layers = layers, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 16, .tied = false};
    options.run.microbatches = {1};
    options.run.optimizer.clip = 0;
    options.platform.clock = Clock::modelled(Cluster::load("free"));
    chosen.bucket_bytes = 1;
    chosen.recompute = Recompute::selective;
  }
  void mesh(int dp, int pp, int cp, int tp) {
    options.run.dp = dp;
    options.run.pp = pp;
    options.run.cp = cp;
    options.run.tp = tp;
    options.run.ranks = dp * pp * cp * tp;
  }
  /// Runs a step of 1F1B, or of `other`. `combines`: whether sums need no scratch memory.
  DryFigures run(int rank, int m = 1, bool combines = true, const Schedule* other = nullptr) {
    options.run.microbatches = {m};
    options.run.batch = m * options.run.dp;
    options.run.builder = builder_of(chosen, no_log);
    if (other != nullptr) options.run.rank_of_stage = other->rank_of_stage;
    Plan plan = options.plan();
    plan.receives_combine = combines;
    const Schedule schedule = other != nullptr ? *other : one_f_one_b(options.run.pp, m);
    return dry_run_mesh(plan, plan.place(rank), schedule, chosen);
  }
};

std::int64_t peak(const DryFigures& figures, MemoryCategory category) {
  return figures.peak.of(category);
}

void check_states(const DryFigures& figures, std::int64_t parameters, std::int64_t gradients,
                  std::int64_t optimizer) {
  CHECK(peak(figures, MemoryCategory::parameters) == parameters);
  CHECK(peak(figures, MemoryCategory::gradients) == gradients);
  CHECK(peak(figures, MemoryCategory::optimizer) == optimizer);
}

constexpr auto in_flight = MemoryCategory::communication;
constexpr auto activations = MemoryCategory::activations;

}  // namespace

TEST_CASE("by hand: one rank, and what recomputation changes") {
  // A block saves 16 F + (4 + a) s = 512 + 24 elements, 2144 B; the head 2 F + s V + 4 s = 144, 576
  // B. On the way back the head's Linear holds dx, 128 B, when the losses (2 s, 32 B) are released.
  Case alone;
  alone.mesh(1, 1, 1, 1);
  DryFigures figures = alone.run(0);
  CHECK(text_of(figures.bytes_sent) == "nothing");
  check_states(figures, 8192, 8192, 16384);
  CHECK(peak(figures, activations) == 2 * 2144 + 576 + 128 - 32);
  CHECK(peak(figures, in_flight) == 0);
  // none: each block saves the probabilities, a s s = 32 elements, instead of a s = 8 sums: 96 B
  // more.
  alone.chosen.recompute = Recompute::none;
  CHECK(peak(alone.run(0), activations) == 2 * (2144 + 96) + 576 + 128 - 32);
  // full: the other block's input, F, and the last block's saved tensors with 5 F for its MLP.
  alone.chosen.recompute = Recompute::full;
  CHECK(peak(alone.run(0), activations) == 128 + 2144 + 5 * 128);
}

TEST_CASE("by hand: dp x tp") {
  // Each of 2 tp ranks has half of everything but the position table (32), LayerNorms (32 per
  // block, and 16) and two biases per block (16): 64 + 32, twice (872 - 48) / 2 + 48 = 460, and 16
  // + 64.
  const std::int64_t elements = 96 + 2 * 460 + 80;  // 1096
  // 4 all-reduces of F per block, and one each for the embedding and the head, in 2 microbatches.
  const std::int64_t along_tp = 2 * (4 * 2 + 2) * 128;
  Case both;
  both.mesh(2, 1, 1, 2);
  DryFigures figures = both.run(0, 2);
  // The loss gathers 3 f32 per token: 48 B of each rank.
  CHECK(text_of(figures.bytes_sent) ==
        text_of(bytes_of(
            {{Operation::all_reduce, along_tp + 4 * elements}, {Operation::all_gather, 2 * 48}})));
  check_states(figures, 4 * elements, 4 * elements, 8 * elements);
  CHECK(peak(figures, in_flight) == 2 * 48);
  CHECK(figures.sent_to.at("tp").at(1) == along_tp + 2 * 48);
  CHECK(figures.sent_to.at("dp_cp").at(2) == 4 * elements);
  // With scratch for half of each tensor that is summed: at the end, all gradients are in flight.
  figures = both.run(3, 2, /*combines=*/false);
  CHECK(peak(figures, in_flight) == 4 * elements / 2);
}

TEST_CASE("by hand: pp x dp with ZeRO-1, 2 and 3") {
  // Stage 0 has 160 + 872 elements, stage 1 872 + 144. In 1F1B with 2 microbatches, stage 0 holds
  // both, and stage 1 one.
  Case zero;
  zero.mesh(2, 2, 1, 1);
  zero.chosen.zero = 1;
  // Each half of the all-reduce sends half: once per step, 4 (1032 / 2) B.
  DryFigures figures = zero.run(0, 2);
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::send, 2 * 128},
                                                         {Operation::reduce_scatter, 2064},
                                                         {Operation::all_gather, 2064}})));
  check_states(figures, 4128, 4128, 4128);
  CHECK(peak(figures, activations) == 2 * 2144 + 5 * 128);  // 5 F: dy, and 4 F in the MLP
  figures = zero.run(3, 2);
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::send, 2 * 128},
                                                         {Operation::reduce_scatter, 2032},
                                                         {Operation::all_gather, 2032}})));
  check_states(figures, 4064, 4064, 4064);
  CHECK(peak(figures, activations) == 2144 + 576 + 128 - 32);
  // ZeRO-2 reduces the gradients of each microbatch. A rank keeps half of them, and in full a block
  // or the embedding: a unit's bucket is released when its reduction ends, before the next begins.
  zero.chosen.zero = 2;
  figures = zero.run(0, 2);
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::send, 2 * 128},
                                                         {Operation::reduce_scatter, 2 * 2064},
                                                         {Operation::all_gather, 2064}})));
  CHECK(peak(figures, MemoryCategory::parameters) == 4128);
  CHECK(peak(figures, MemoryCategory::optimizer) == 4128);
  // ZeRO-3 gathers the parameters for each forward and each backward pass. Both units are whole
  // while the first is in use and the second prefetched.
  zero.chosen.zero = 3;
  figures = zero.run(0, 2);
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::send, 2 * 128},
                                                         {Operation::reduce_scatter, 2 * 2064},
                                                         {Operation::all_gather, 4 * 2064}})));
  CHECK(peak(figures, MemoryCategory::parameters) == 2064 + 4128);
  CHECK(peak(figures, MemoryCategory::optimizer) == 4128);
}

TEST_CASE("by hand: tp with sequence parallelism") {
  // An all-reduce becomes a reduce-scatter and an all-gather of F, F / 2 each: 4 per block; and the
  // embedding and the head have one of each. Once per step, the LayerNorms sum 2 * 4 h + 2 h = 80
  // elements, in a buffer of this size.
  Case sequence;
  sequence.mesh(1, 1, 1, 2);
  sequence.chosen.sequence_parallel = true;
  const DryFigures figures = sequence.run(1);
  const std::int64_t exchanges = (2 * 4 + 2) * 64;
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::reduce_scatter, exchanges},
                                                         {Operation::all_gather, exchanges + 48},
                                                         {Operation::all_reduce, 4 * 80}})));
  CHECK(peak(figures, in_flight) == 4 * 80);
}

TEST_CASE("by hand: tp with recomputation of whole blocks") {
  // The forward pass of a block runs twice: 2 * 2 + 2 all-reduces of F instead of 4.
  Case again;
  again.mesh(1, 1, 1, 2);
  again.chosen.recompute = Recompute::full;
  const DryFigures figures = again.run(0);
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::all_reduce, (6 * 2 + 2) * 128},
                                                         {Operation::all_gather, 48}})));
}

TEST_CASE("by hand: cp with ring attention") {
  // Each rank has 2 of the 4 tokens. K and V together are 2 * 2 h = 32 elements, 128 B. They make
  // one hop in each pass, and dK and dV make two: 4 * 128 B per block. All gradients are then
  // summed.
  Case ring;
  ring.mesh(1, 1, 2, 1);
  DryFigures figures = ring.run(0);
  CHECK(text_of(figures.bytes_sent) ==
        text_of(bytes_of({{Operation::send, 2 * 4 * 128}, {Operation::all_reduce, 8192}})));
  // Backward: K, V held and arriving; dK, dV computed, summed and arriving.
  CHECK(peak(figures, in_flight) == 5 * 128);
  CHECK(figures.sent_to.at("cp").at(1) == 2 * 4 * 128);
  CHECK(figures.sent_to.at("dp_cp").at(1) == 8192);  // the same ranks, another axis
  // A block that is recomputed passes K and V around once more.
  ring.chosen.recompute = Recompute::full;
  CHECK(ring.run(1).bytes_sent[Operation::send] == 2 * 5 * 128);
}

TEST_CASE("by hand: ep with a fixed routing") {
  // Two ranks have one of two experts each, and 4 tokens that go to one expert. Rank 0 keeps 3 of
  // its tokens and sends 1; rank 1 sends 2 and keeps 2. So rank 0's expert has 5 rows, and rank
  // 1's 3.
  Case experts;
  experts.mesh(2, 1, 1, 1);
  experts.options.run.ep = 2;
  experts.chosen.moe = {.experts = 2, .top_k = 1};
  const std::int64_t rows[] = {5, 3};
  for (const int rank : {0, 1}) {
    GivenRouting given;
    for (const int layer : {0, 1}) given.add(layer, {{3, 1}, {2, 2}});
    experts.chosen.moe.given = &given;
    const DryFigures figures = experts.run(rank);
    // Per block: 4 B announce the rows; 1 + 2 rows of 32 B there and back, in each pass.
    // A block has 320 elements and a router of 16, whose gradients are summed; and an expert, 552.
    CHECK(text_of(figures.bytes_sent) ==
          text_of(bytes_of({{Operation::all_to_all, 2 * (4 + 2 * 3 * 32)},
                            {Operation::all_reduce, 4 * (160 + 2 * 336 + 144)}})));
    check_states(figures, 4 * (160 + 2 * 888 + 144), 4 * (160 + 2 * 888 + 144),
                 8 * (160 + 2 * 888 + 144));
    // The rows of its own tokens, 4, and those of its expert.
    CHECK(peak(figures, in_flight) == 32 * (4 + rows[rank]));
  }
}

TEST_CASE("by hand: two stages per rank") {
  // Rank 0 has stages 0 and 2, rank 1 has 1 and 3; each is a block. Forward, rank 0 sends the
  // outputs of stages 0 and 2, and backward the gradient of stage 2: three per microbatch. So does
  // rank 1.
  Case chunks{4};
  chunks.mesh(1, 2, 1, 1);
  const Schedule schedule = interleaved_1f1b(2, 2, 4);
  const std::int64_t elements[] = {160 + 2 * 872, 2 * 872 + 144};
  for (const int rank : {0, 1}) {
    const DryFigures figures = chunks.run(rank, 4, true, &schedule);
    CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::send, 4 * 3 * 128}})));
    CHECK(figures.sent_to.at("").at(1 - rank) == 4 * 3 * 128);
    check_states(figures, 4 * elements[rank], 4 * elements[rank], 8 * elements[rank]);
  }
}

TEST_CASE("by hand: hybrid sharding") {
  // Of 4 dp ranks, 2 and 2 share one copy. Within a pair, as ZeRO-3: half of 2048 elements for the
  // reduce-scatter, and twice for the all-gathers. Then the shards, 1024, are summed by two ranks.
  Case hybrid;
  hybrid.mesh(4, 1, 1, 1);
  hybrid.chosen.zero = 3;
  hybrid.chosen.shard = 2;
  DryFigures figures = hybrid.run(2);
  CHECK(text_of(figures.bytes_sent) == text_of(bytes_of({{Operation::reduce_scatter, 4096},
                                                         {Operation::all_gather, 2 * 4096},
                                                         {Operation::all_reduce, 4096}})));
  CHECK(peak(figures, MemoryCategory::optimizer) == 8 * 1024);
  CHECK(figures.sent_to.at("sharers").at(3) == 3 * 4096);
  CHECK(figures.sent_to.at("replicas").at(0) == 4096);
  CHECK(peak(figures, in_flight) == 0);
  // Scratch: a reduce-scatter needs half of a bucket, 4 (872 / 2) B for a block; the sums of the
  // shards all run at once and need half of them, 4 (1024 / 2) B.
  CHECK(peak(hybrid.run(2, 1, /*combines=*/false), in_flight) == 2048);
}
