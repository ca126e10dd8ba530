#include <fmt/format.h>

#include <cmath>

#include "core/base/error.h"
#include "core/model/gpt.h"
#include "core/run/bare_lesson.h"
#include "lessons/00_ranks/model_states.h"
#include "lessons/00_ranks/waiting.h"

using namespace lockstep;

// A rank is the copy of a program that runs on one device: all ranks run the same code, and differ
// only in their rank number. Here each rank computes, sends a message to its neighbour, and enters
// a barrier; one rank is late, and all others wait for it.
int main(int argc, char** argv) {
  BareLesson lesson{{.name = "00 ranks",
                     .question = "What is a rank, and why does one late rank stall all others?",
                     .steps = 4,
                     .microbatches = {1},
                     .axes = {Axis::dp}},
                    argc,
                    argv};
  const int& late = lesson.flag("--late", 2, "the rank that has more work than the others");
  const double& times =
      lesson.flag("--times", 3.0, "how many times as much work the late rank has");

  lesson.hooks.checks.emplace_back([&](const Options& options) {
    if (const int last = options.plan.mesh.ranks() - 1; late > last)
      throw UsageError(fmt::format("--late {}: ranks are 0 to {}", late, last));
    if (!(times > 0 && times <= 1000))
      throw UsageError(fmt::format("--times {}: must be above 0 and at most 1000", times));
  });

  return lesson.run([&](Rank& rank) {
    const GptConfig& config = lesson.model();
    const std::int64_t sequences = lesson.options().plan.batch.sequences;
    Gpt block{config, rank.device, {.first = 0, .last = 1}, lesson.seed()};  // something to compute
    Tensor x{rank.memory, {sequences, config.sequence, config.hidden}, MemoryCategory::activations};
    fill_with_zeros(rank.device, x);
    const int late_pieces = static_cast<int>(std::lround(4 * times));
    const int pieces = rank.id == late ? late_pieces : 4;

    // Neighbours on a ring: every rank sends to the right and receives from the left.
    const int right = (rank.id + 1) % rank.count;
    const int left = (rank.id + rank.count - 1) % rank.count;
    Tensor mine{rank.memory, {1000}, MemoryCategory::communication};
    Tensor theirs{rank.memory, {1000}, MemoryCategory::communication};
    fill_with_zeros(rank.device, mine);
    auto predicted = Predicted::without_memory("this lesson is about time");
    predicted.bytes_sent[Operation::send] = 4 * 1000;

    StepTimes spent;
    const auto now = [&] {
      rank.compute.synchronise();
      return rank.compute.now();
    };
    for (const Batch& batch : lesson.batches(rank, lesson.phases().front(), predicted)) {
      const Picoseconds start = now();
      rank.compute.range({.name = "compute", .category = Category::forward}, [&] {
        for (int i = 0; i < pieces; ++i) {
          Stash temporary;
          block.forward(batch.microbatches.front(), x.share(), temporary);
        }
      });

      const Picoseconds computed = now();

      // Start send and receive before waiting for either: a send completes only when the receiver
      // has matched it, so if every rank waited for its send first, none would ever receive.
      Work sent = rank.world.send(mine, right);
      Work received = rank.world.receive(theirs, left);
      received.wait();
      sent.wait();
      const Picoseconds exchanged = now();

      // No rank passes the barrier before the last one has entered it.
      rank.world.barrier().wait();
      spent = {computed - start, exchanged - computed, now() - exchanged};
    }
    const std::vector<StepTimes> all = gather(rank, spent);
    const double k = late_pieces / 4.0;
    lesson.add_to_report(rank, "waiting", json(all, k));
    if (rank.id == 0 && !lesson.options().output.quiet) {
      print_waiting(all, k, rank.clock);
      print_model_states();
    }
  });
}
