#include "viz/data/step/stall_of_run.h"

#include "viz/read/flight_recorder/trace_job.h"

namespace lockstep::viz {

void StallOfRun::update(const Timeline& timeline, bool live) {
  const Key key{timeline.span_count(), !live || timeline.ended()};
  if (key == analysed_) return;
  analysed_ = key;
  picture_.reset();
  if (!key.complete) return;
  if (const auto stall = flight::stall_of(timeline); stall && !stall->empty())
    picture_ = picture_of(*stall);
}

}  // namespace lockstep::viz
