#include "viz/read/kineto/trace.h"

namespace lockstep::kineto {

bool Trace::has_gpu() const {
  return std::ranges::any_of(tracks, &Track::gpu);
}

bool Trace::has_kernels() const {
  return std::ranges::any_of(events,
                             [](const Event& event) { return event.kind == Event::Kind::kernel; });
}

std::unordered_map<std::int64_t, TrackTime> launches_of(const Trace& trace) {
  std::unordered_map<std::int64_t, TrackTime> launches;
  for (const Event& event : trace.events)
    if (event.kind == Event::Kind::runtime && event.correlation >= 0)
      launches.try_emplace(event.correlation, TrackTime{event.track, event.start});
  return launches;
}

}  // namespace lockstep::kineto
