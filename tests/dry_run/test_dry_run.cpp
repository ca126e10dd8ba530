#include "core/dry_run/dry_run.h"

#include <doctest/doctest.h>

#include <memory>

#include "core/run/options/options.h"
#include "lessons/09_1f1b/one_f_one_b.h"
#include "lessons/10_interleaved/interleaved.h"
#include "lessons/16_all_axes/prediction.h"
#include "tests/support/bytes.h"

// Compares the dry run's bytes and peaks of compositions with values worked out by hand.
//
// All cases use one model: h = 128, a = 2 heads, s = 4 tokens, V = 16, an untied head, f32. A
// microbatch is one sequence, so a tensor between layers has F = s h = 512 elements, 2048 B.
// Elements:
//   embedding        V h + s h   = 2048 + 512    = 2560
//   block            12 h² + 13 h = 196608 + 1664 = 198272
//   LayerNorm, head  2 h + V h   = 256 + 2048    = 2304
// With two blocks: 2560 + 2 * 198272 + 2304 = 401408. AdamW keeps 8 B per element. Each unit's
// gradients form a separate bucket, without padding, since all sizes are multiples of 64 elements.
//
// A ring of 2 sends n elements per all-reduce, and n/2 per reduce-scatter or all-gather, if n is
// even.
using namespace lockstep;
using namespace lockstep::testing;

namespace {

UnreadRoutingLog no_log;

struct Case {
  Options options;
  AllAxes chosen;
  explicit Case(int layers = 2) {
    set_model(options.plan, {.layers = layers,
                             .hidden = 128,
                             .heads = 2,
                             .sequence = 4,
                             .vocabulary = 16,
                             .tied = false});
    options.plan.batch.microbatches = 1;
    options.plan.optimizer.clip = 0;
    options.plan.modelled = {Cluster::load("free")};
    chosen.bucket_bytes = 1;
    chosen.recompute = Recompute::selective;
  }
  void mesh(int dp, int pp, int cp, int tp) {
    options.plan.set_mesh(Mesh{dp * pp * cp * tp, {tp, cp, dp, pp}});
  }
  /// Runs a step of 1F1B, or of `other`. `combines` says whether sums need no scratch memory.
  DryFigures run(int rank, int m = 1, bool combines = true, const Schedule* other = nullptr) {
    options.plan.batch.microbatches = m;
    options.plan.batch.sequences = m * options.plan.mesh.size(Axis::dp);
    set_builder(options.plan, builder_of(chosen, no_log));
    if (other != nullptr) options.plan.rank_of_stage = other->rank_of_stage;
    Plan plan = options.plan;
    plan.receives_combine = combines;
    const Schedule schedule =
        other != nullptr ? *other : one_f_one_b(options.plan.mesh.size(Axis::pp), m);
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
  // A block saves 16 F + (4 + a) s = 8192 + 24 elements, 32864 B. The peak is in the last block's
  // MLP during the backward pass: dy, and 4 F of its inner gradients; the head has released its
  // saved tensors.
  Case alone;
  alone.mesh(1, 1, 1, 1);
  const DryFigures figures = alone.run(0);
  CHECK(text_of(figures.bytes_sent) == "nothing");
  check_states(figures, 1605632, 1605632, 3211264);
  CHECK(peak(figures, activations) == 2 * 32864 + 5 * 2048);
  CHECK(peak(figures, in_flight) == 0);
  // none: a block saves the probabilities, a s s = 32 elements, instead of a s = 8 sums: 96 B more.
  alone.chosen.recompute = Recompute::none;
  CHECK(peak(alone.run(0), activations) == 2 * (32864 + 96) + 5 * 2048);
  // full: the other block's input, F, and the last block's saved tensors, with 5 F in its MLP.
  alone.chosen.recompute = Recompute::full;
  CHECK(peak(alone.run(0), activations) == 2048 + 32864 + 5 * 2048);
}

TEST_CASE("by hand: dp x tp") {
  // Each of 2 tp ranks holds half of everything but the position table (512), LayerNorms (4 h per
  // block, and 2 h) and two biases per block (2 h). So its embedding has 1024 + 512 elements, a
  // block (198272 - 768) / 2 + 768 = 99520, and the head 256 + 1024: 1536 + 2 * 99520 + 1280 =
  // 201856.
  Case both;
  both.mesh(2, 1, 1, 2);
  DryFigures figures = both.run(0, 2);
  // In 2 microbatches, 4 all-reduces of F per block, and one each for the embedding and the head: 2
  // * (4 * 2 + 2) * 2048 = 40960 B. The loss gathers 3 f32 per token: 48 B from each rank. Along
  // dp, all gradients are summed once: 4 * 201856 = 807424 B.
  CHECK(text_of(figures.bytes_sent) == "all_reduce 848384, all_gather 96");
  check_states(figures, 807424, 807424, 1614848);
  CHECK(peak(figures, in_flight) == 2 * 48);  // the statistics of both ranks
  CHECK(figures.sent_to.at("tp").at(1) == 40960 + 96);
  CHECK(figures.sent_to.at("dp_cp").at(2) == 807424);
  // Each summed tensor needs scratch for half of its elements: at the end, all gradients are in
  // flight.
  figures = both.run(3, 2, /*combines=*/false);
  CHECK(peak(figures, in_flight) == 403712);
  // A library uses its own scratch.
  both.options.plan.collectives = Collectives::native;
  figures = both.run(3, 2, /*combines=*/false);
  CHECK(peak(figures, in_flight) == 2 * 48);
}

TEST_CASE("by hand: pp x dp with ZeRO-1, 2 and 3") {
  // Stage 0 has 2560 + 198272 = 200832 elements, 803328 B; stage 1 has 198272 + 2304 = 200576,
  // 802304 B. In 1F1B with 2 microbatches, stage 0 holds both, and stage 1 one.
  Case zero;
  zero.mesh(2, 2, 1, 1);
  zero.chosen.zero = 1;
  // Each half of the all-reduce sends half of the elements, once per step. A stage sends F for each
  // microbatch. The optimizer holds half of the states: 8 * 200832 / 2.
  DryFigures figures = zero.run(0, 2);
  CHECK(text_of(figures.bytes_sent) == "send 4096, reduce_scatter 401664, all_gather 401664");
  check_states(figures, 803328, 803328, 803328);
  CHECK(peak(figures, activations) == 2 * 32864 + 5 * 2048);
  figures = zero.run(3, 2);
  CHECK(text_of(figures.bytes_sent) == "send 4096, reduce_scatter 401152, all_gather 401152");
  check_states(figures, 802304, 802304, 802304);
  CHECK(peak(figures, activations) == 32864 + 5 * 2048);
  // ZeRO-2 reduces the gradients of each microbatch. A rank keeps half of them, 401664 B, and holds
  // in full the units whose gradients are being computed or reduced: the block's 793088 B and the
  // embedding's 10240 B.
  zero.chosen.zero = 2;
  figures = zero.run(0, 2);
  CHECK(text_of(figures.bytes_sent) == "send 4096, reduce_scatter 803328, all_gather 401664");
  check_states(figures, 803328, 401664 + 793088 + 10240, 803328);
  // ZeRO-3 gathers the parameters for each forward and each backward pass. Both units are held in
  // full while the first is in use and the second is prefetched.
  zero.chosen.zero = 3;
  figures = zero.run(0, 2);
  CHECK(text_of(figures.bytes_sent) == "send 4096, reduce_scatter 803328, all_gather 1606656");
  check_states(figures, 401664 + 803328, 401664 + 793088 + 10240, 803328);
}

TEST_CASE("by hand: tp with sequence parallelism") {
  // An all-reduce becomes a reduce-scatter and an all-gather of F, with half of F, 1024 B, each: 4
  // per block, and one each for the embedding and the head: 10 * 1024 B. The loss gathers 48 B.
  // Once per step, the LayerNorms sum 2 * 4 h + 2 h = 1280 elements, in a buffer of this size.
  Case sequence;
  sequence.mesh(1, 1, 1, 2);
  sequence.chosen.sequence_parallel = true;
  const DryFigures figures = sequence.run(1);
  CHECK(text_of(figures.bytes_sent) == "all_reduce 5120, reduce_scatter 10240, all_gather 10288");
  CHECK(peak(figures, in_flight) == 5120);
}

TEST_CASE("by hand: tp with recomputation of whole blocks") {
  // The forward pass of a block runs twice: 6 all-reduces of F instead of 4. (6 * 2 + 2) * 2048 B.
  Case again;
  again.mesh(1, 1, 1, 2);
  again.chosen.recompute = Recompute::full;
  CHECK(text_of(again.run(0).bytes_sent) == "all_reduce 28672, all_gather 48");
}

TEST_CASE("by hand: cp with ring attention") {
  // Each rank holds 2 of the 4 tokens. K and V together are 2 * 2 h = 512 elements, 2048 B. They
  // make one hop in each pass, and dK and dV make two: 4 * 2048 B in each of 2 blocks. All
  // gradients, 4 * 401408 B, are then summed.
  Case ring;
  ring.mesh(1, 1, 2, 1);
  DryFigures figures = ring.run(0);
  CHECK(text_of(figures.bytes_sent) == "send 16384, all_reduce 1605632");
  // In the backward pass: K, V held and arriving; dK, dV computed, summed and arriving.
  CHECK(peak(figures, in_flight) == 5 * 2048);
  CHECK(figures.sent_to.at("cp").at(1) == 16384);
  CHECK(figures.sent_to.at("dp_cp").at(1) == 1605632);  // the same ranks, another axis
  // A block that is recomputed passes K and V around once more: 5 * 2048 B.
  ring.chosen.recompute = Recompute::full;
  CHECK(ring.run(1).bytes_sent[Operation::send] == 20480);
}

TEST_CASE("by hand: cp with Ulysses, and with gathered keys and values") {
  // q, k, v or y of a rank's 2 tokens is 2 h = 256 elements, 1024 B. Ulysses sends half of each of
  // q, k, v and y, and in the backward pass half of dy, dq, dk and dv: 8 * 512 B in each of 2
  // blocks.
  Case shared;
  shared.mesh(1, 1, 2, 1);
  shared.chosen.method = ContextMethod::ulysses;
  DryFigures figures = shared.run(1);
  CHECK(text_of(figures.bytes_sent) == "all_reduce 1605632, all_to_all 8192");
  CHECK(peak(figures, in_flight) == 2 * 3 * 1024);  // q, k and v to send, and received
  // A block saves y twice: for all tokens and half of the heads, and for half of the tokens.
  CHECK(peak(figures, activations) == 2 * (32864 / 2 + 1024) + 5 * 1024);
  // In each pass, a rank gathers K and V, 2 * 1024 B from the other rank, and sends the other
  // rank's dK and dV.
  shared.chosen.method = ContextMethod::gather;
  figures = shared.run(0);
  CHECK(text_of(figures.bytes_sent) == "all_reduce 1605632, reduce_scatter 4096, all_gather 8192");
  CHECK(peak(figures, in_flight) == 2 * 4096);  // K, V, dK and dV of all 4 tokens
  CHECK(peak(figures, activations) == 2 * (32864 / 2) + 5 * 1024);
}

TEST_CASE("by hand: ep with a fixed routing") {
  // Each of two ranks holds one of two experts, and 4 tokens that each go to one expert. Rank 0
  // keeps 3 of its tokens and sends 1; rank 1 sends 2 and keeps 2. Therefore, rank 0's expert gets
  // 5 rows, and rank 1's expert gets 3.
  Case experts;
  experts.mesh(2, 1, 1, 1);
  experts.options.plan.mesh = experts.options.plan.mesh.with_experts(2);
  experts.chosen.moe = {.experts = 2, .top_k = 1};
  const std::int64_t rows[] = {5, 3};
  for (const int rank : {0, 1}) {
    GivenRouting given;
    for (const int layer : {0, 1}) given.add(layer, {{3, 1}, {2, 2}});
    experts.chosen.moe.given = &given;
    const DryFigures figures = experts.run(rank);
    // In each of 2 blocks: 4 B announce the rows; 1 + 2 rows of 512 B travel in each direction, in
    // each pass: 4 + 2 * 3 * 512 = 3076 B. Of a block's 198272 elements, its MLP has 131712, and
    // 66560 are left, with a router of 256. Their gradients are summed, but not the experts': 2560
    // + 2 * (66560 + 256) + 2304 = 138496. A rank holds these and two experts: 401920.
    CHECK(text_of(figures.bytes_sent) == "all_reduce 553984, all_to_all 6152");
    check_states(figures, 1607680, 1607680, 3215360);
    // The 4 rows of the rank's own tokens, and the rows of its expert.
    CHECK(peak(figures, in_flight) == 512 * (4 + rows[rank]));
  }
}

TEST_CASE("by hand: two stages per rank") {
  // Rank 0 holds stages 0 and 2, rank 1 holds 1 and 3; each stage is a block. Rank 0 sends the
  // outputs of stages 0 and 2 in the forward pass, and the gradient of stage 2 in the backward
  // pass: three messages per microbatch. So does rank 1.
  Case chunks{4};
  chunks.mesh(1, 2, 1, 1);
  const Schedule schedule = interleaved_1f1b(2, 2, 4);
  const std::int64_t elements[] = {399104, 398848};  // 2560 + 2 * 198272, 2 * 198272 + 2304
  for (const int rank : {0, 1}) {
    const DryFigures figures = chunks.run(rank, 4, true, &schedule);
    CHECK(text_of(figures.bytes_sent) == "send 24576");  // 4 * 3 * 2048
    CHECK(figures.sent_to.at("").at(1 - rank) == 24576);
    check_states(figures, 4 * elements[rank], 4 * elements[rank], 8 * elements[rank]);
  }
}

TEST_CASE("by hand: hybrid sharding") {
  // The 4 dp ranks form two pairs, each of which shares one copy. Within a pair, a rank sends as in
  // ZeRO-3: half of 401408 elements for the reduce-scatter, 802816 B, and twice that for the
  // all-gathers. Then two ranks sum their shards, 200704 elements, 802816 B.
  Case hybrid;
  hybrid.mesh(4, 1, 1, 1);
  hybrid.chosen.zero = 3;
  hybrid.chosen.shard = 2;
  DryFigures figures = hybrid.run(2);
  CHECK(text_of(figures.bytes_sent) ==
        "all_reduce 802816, reduce_scatter 802816, all_gather 1605632");
  CHECK(peak(figures, MemoryCategory::optimizer) == 1605632);  // 8 * 200704
  CHECK(figures.sent_to.at("sharers").at(3) == 3 * 802816);
  CHECK(figures.sent_to.at("replicas").at(0) == 802816);
  CHECK(peak(figures, in_flight) == 0);
  // Scratch: a reduce-scatter needs half of a bucket, 4 * 198272 / 2 = 396544 B for a block; the
  // sums of the shards all run at once and need half of the shards, 4 * 200704 / 2 B.
  CHECK(peak(hybrid.run(2, 1, /*combines=*/false), in_flight) == 401408);
}
