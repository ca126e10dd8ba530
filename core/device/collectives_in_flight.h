#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/time/time.h"

namespace lockstep {

/// A rank's collectives in flight, which slow down the kernels that run at the same time
/// (SharedLinks::kernels_beside_collectives). Belongs to the rank's own thread.
class CollectivesInFlight {
 public:
  /// `wait_until` returns once all events before a modelled time are known.
  CollectivesInFlight(double slowdown, std::function<void(Picoseconds)> wait_until)
      : slowdown_(slowdown), wait_until_(std::move(wait_until)) {}

  /// Registers a collective. Call the result with the collective's end, on any thread, once it is
  /// known.
  std::function<void(Picoseconds)> begin() {
    ends_.push_back(std::make_shared<std::atomic<Picoseconds>>(unknown));
    return [end = ends_.back()](Picoseconds at) { *end = at; };
  }

  /// Returns the duration of a kernel that starts at `start`, and that takes `alone` without
  /// collectives in flight.
  Picoseconds duration(Picoseconds start, Picoseconds alone) {
    std::erase_if(ends_, [&](const auto& end) { return has_ended(*end, start); });
    if (ends_.empty() || alone == 0) return alone;
    wait_until_(start);
    std::erase_if(ends_, [&](const auto& end) { return has_ended(*end, start); });
    return ends_.empty() ? alone : stretched(alone, slowdown_);
  }

 private:
  static constexpr Picoseconds unknown = -1;
  static bool has_ended(Picoseconds end, Picoseconds at) { return end != unknown && end <= at; }

  double slowdown_;
  std::function<void(Picoseconds)> wait_until_;
  std::vector<std::shared_ptr<std::atomic<Picoseconds>>> ends_;
};

}  // namespace lockstep
