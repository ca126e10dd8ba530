#include "core/run/bare_lesson.h"
#include "lessons/01_collectives/experiment/account.h"
#include "lessons/01_collectives/experiment/grid.h"
#include "lessons/01_collectives/experiment/proof.h"
#include "lessons/01_collectives/experiment/sweep.h"
#include "lessons/01_collectives/ring_all_reduce.h"

using namespace lockstep;

// Every rank contributes an array and receives the elementwise sum. No rank has to communicate with
// all others for that: each sends to its right neighbour and receives from its left one.
int main(int argc, char** argv) {
  BareLesson lesson{{.name = "01 collectives",
                     .question = "How do N ranks sum their arrays, and what does that cost?",
                     .steps = 4,
                     .microbatches = {1},
                     .model = false,
                     .axes = {Axis::dp}},
                    argc,
                    argv};
  const auto& name = lesson.flag<std::string>(
      "--algorithm", "ring",
      "ring, naive, tree, recursive_doubling, rabenseifner, hierarchical, double_tree, rings, "
      "in_switch (a cost only, with --device meta), or auto, the fastest of them");
  const auto& elements =
      lesson.flag("--elements", std::int64_t{1'000'000}, "f32 elements in each rank's array");
  const bool& sweep =
      lesson.flag("--sweep", false,
                  "afterwards, time many sizes on 2, 4, 8, ... ranks and with all algorithms");
  const int& largest =
      lesson.flag("--largest", largest_by_default, "bytes of the sweep's largest array");
  lesson.hooks.checks.emplace_back([&](const Options& options) {
    check_algorithm(options, name);
    if (name == "auto") lesson.hooks.chosen_by_time.push_back("--algorithm auto");
    check_sizes(options, elements, sweep, largest);
  });

  return lesson.run([&](Rank& rank) {
    const bool computes = !on_meta(rank);
    const bool prints = rank.id == 0 && !lesson.options().output.quiet;
    Group group = our_own_collectives(rank);
    Tensor data{rank.memory, {elements}, MemoryCategory::communication};

    std::optional<Rings> rings;
    if (name == "rings" || name == "auto") rings.emplace(our_own_rings(rank));

    // The lesson's own ring, or one of core's other algorithms.
    const auto sum_by = [&](Algorithm by, View array) {
      if (by == Algorithm::ring)
        ring_all_reduce(group, rank.device, array);
      else if (by == Algorithm::rings)
        rings->all_reduce(array).wait();
      else
        group.all_reduce(array, by).wait();
    };
    const Algorithm algorithm = name == "auto" ? choose(rank, data, sum_by) : algorithm_of(name);
    const bool ring = algorithm == Algorithm::ring;
    const auto sum = [&](View array) { sum_by(algorithm, array); };

    Grid grid{rank.device, group, data};
    std::vector<Picoseconds> times;
    const Phase phase = all_reduces(lesson, algorithm);
    for ([[maybe_unused]] const Batch& none :
         lesson.batches(rank, phase, predict(rank.plan, rank.place, algorithm, elements))) {
      fill_with_contribution(rank, data);
      start_together(rank);
      const Picoseconds start = rank.compute.now();
      // The grid observes only the first all-reduce, because observing takes time.
      if (computes && ring && grid.fits() && times.empty())
        ring_all_reduce(group, rank.device, data, [&](const RingStep& now) { grid.note(now); });
      else
        sum(data);
      times.push_back(largest_of_all(*rank.transport, time_when_done(rank) - start));
      check_sum(rank, data);
    }
    if (computes) check_bits(rank, group, data, lesson.seed(), ring, sum);

    const Cluster machine = machine_of(rank, group, data);
    const std::string drawing = grid.draw(*rank.transport, Console::detect());
    if (times.size() > 1) times.erase(times.begin());  // the one that the grid observed
    const Measured measured{algorithm, elements,
                            predict_all_reduce(algorithm, elements, rank.count, machine),
                            median(times), native_time(rank, data)};
    lesson.add_to_report(rank, "all_reduce", json(measured, rank.count));
    if (prints) {
      if (computes) fmt::print("{}", !ring || grid.fits() ? drawing : grid.too_many());
      print_proof(computes, ring);
      print_time(rank, machine, measured);
    }
    if (sweep) {
      Sweep all{rank, machine, largest, lesson.options().output.quiet};
      all.over_ranks(algorithm);
      all.over_algorithms();
      lesson.add_to_report(rank, "sweep", all.json());
    }
  });
}
