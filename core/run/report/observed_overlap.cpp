#include "core/run/report/observed_overlap.h"

#include "core/timeline/analysis.h"

namespace lockstep {

ObservedOverlap observe_overlap(const Timeline& timeline, const Phase& phase) {
  ObservedOverlap seen{.phase = phase.name};
  const int first = phase.first_step + (phase.steps > 1 ? 1 : 0);
  int steps = 0;
  for (int step = first; step < phase.first_step + phase.steps; ++step) {
    if (!timeline.find_step(step)) continue;
    const Overlap overlap = communication_overlap(timeline, step);
    seen.communication += seconds(overlap.communication);
    seen.hidden += seconds(overlap.hidden);
    for (const StepParts& part : step_parts(timeline, step)) {
      seen.step += seconds(part.step);
      seen.compute += seconds(part.compute);
      seen.exposed += seconds(part.exposed());
      seen.idle += seconds(part.idle);
      seen.transfer += seconds(part.transfer);
      seen.latency += seconds(part.latency);
      seen.late_peer += seconds(part.late_peer);
    }
    ++steps;
  }
  if (steps == 0) return seen;
  const double rank_steps = steps * static_cast<double>(timeline.ranks().size());
  for (double* sum : {&seen.communication, &seen.hidden, &seen.step, &seen.compute, &seen.exposed,
                      &seen.idle, &seen.transfer, &seen.latency, &seen.late_peer})
    *sum /= rank_steps;
  return seen;
}

}  // namespace lockstep
