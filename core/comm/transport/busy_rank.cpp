#include "core/comm/transport/busy_rank.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/device/stream.h"

namespace lockstep {

namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point then) {
  return std::chrono::duration<double>(SteadyClock::now() - then).count();
}

}  // namespace

BusyRank::BusyRank(int rank, const Stream& compute)
    : rank_(rank), compute_(&compute), launched_(compute.launched()) {}

bool BusyRank::is_busy() {
  const std::uint64_t launched = compute_->launched();
  const bool busy = compute_->in_kernel() || launched != launched_ || sleeps_for_pace();
  if (busy) busy_ = SteadyClock::now();
  launched_ = launched;
  return busy;
}

bool BusyRank::busy_within(double seconds) {
  is_busy();
  return busy_ != SteadyClock::time_point{} && seconds_since(busy_) <= seconds;
}

bool BusyRank::sleeps_for_pace() const {
  return compute_->sleeps_for_pace();
}

// The open range may contain waits, so the computing time is counted from the end of the last wait.
std::string BusyRank::notice() const {
  const Stream::Activity activity = compute_->current_activity();
  double seconds = seconds_since(waited_until_);
  if (!activity.name.empty() && activity.seconds > 0) seconds = std::min(seconds, activity.seconds);
  return fmt::format("rank {} has been computing {}for {:.1f} s; the others wait for it", rank_,
                     activity.name.empty() ? "" : activity.name + " ", seconds);
}

}  // namespace lockstep
