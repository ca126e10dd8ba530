#include "core/run/observed_overlap.h"

#include "core/trace/analysis.h"

namespace lockstep {

ObservedOverlap observe_overlap(const Timeline& timeline, const Phase& phase) {
  ObservedOverlap seen{.phase = phase.name};
  const int first = phase.first_step + (phase.steps > 1 ? 1 : 0);
  int steps = 0;
  for (int step = first; step < phase.first_step + phase.steps; ++step) {
    const auto span = timeline.find_step(step);
    if (!span) continue;
    const Overlap overlap = communication_overlap(timeline, step);
    seen.communication += seconds(overlap.communication);
    seen.exposed += seconds(overlap.exposed());
    seen.step += seconds(span->end - span->start);
    ++steps;
  }
  if (steps == 0) return seen;
  const double rank_steps = steps * static_cast<double>(timeline.ranks().size());
  seen.communication /= rank_steps;
  seen.exposed /= rank_steps;
  seen.step /= steps;
  return seen;
}

}  // namespace lockstep
