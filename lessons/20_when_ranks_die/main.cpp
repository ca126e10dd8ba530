#include <memory>

#include "core/run/lesson.h"
#include "lessons/20_when_ranks_die/fault_injection.h"
#include "lessons/20_when_ranks_die/report.h"
#include "lessons/20_when_ranks_die/survival_flags.h"

using namespace lockstep;

// A training whose ranks die. Before each step, a coordinator says who takes part; after it, the
// members vote on whether it counts. What a dead rank knew, its peers know: along dp every replica
// has the whole state, along pp each stage has a copy in its neighbour's memory.
int main(int argc, char** argv) {
  Lesson lesson{when_ranks_die(), argc, argv};
  const SurvivalFlags flags{lesson};

  return lesson.run([&](Rank& rank) {
    const Faults& faults = flags.faults();
    Coordinator& coordinator = flags.coordinator();
    FaultInjection injection{rank, faults, coordinator};
    const Presence presence{coordinator, rank};
    std::unique_ptr<Survivor> survivor;
    if (faults.takes_part(rank.id, 0) || faults.strikes(rank.id, 0)) {
      survivor = flags.start(rank, injection);
      survivor->join(0, [&](const std::vector<Parameter*>& parameters, AdamW& optimizer) {
        lesson.load(rank, parameters, optimizer);
      });
    }

    for (const Phase& phase : flags.phases()) {
      const Predicted predicted = flags.predict(rank, phase);
      for (Batch& mine : lesson.batches(rank, phase, predicted)) {
        const int step = rank.trace.step();
        if (!faults.takes_part(rank.id, step) && !faults.strikes(rank.id, step)) {
          survivor.reset();  // dead: it has lost everything
          coordinator.sit_out(rank, step);
          continue;
        }
        if (!survivor) survivor = flags.start(rank, injection);  // it returns, and knows nothing
        try {
          lesson.record_loss(rank, survivor->step(step, mine));
          injection.strike(step, DeathPoint::update);
        } catch (const Died&) {
          end_waits(rank);
          coordinator.leave(rank, [&] { survivor.reset(); });
          coordinator.sit_out(rank, step);
        }
      }
    }
    if (survivor) survivor->finish();
    const AdamW nothing{{}, rank.device};
    lesson.finish(rank, survivor ? survivor->parameters() : std::vector<Parameter*>{},
                  survivor ? survivor->optimizer() : nothing);
    if (rank.id == 0) report_survival(lesson, rank, flags.events());
  });
}
