#include "core/run/active/stop.h"

#include <algorithm>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/run/rank/rank.h"

namespace lockstep {

bool Stop::request() {
  std::lock_guard lock{mutex_};
  if (!saves_ || requested_ || saved_) return false;
  return requested_ = true;
}

// Under threads, ranks may be in different steps when the request arrives. They all continue to the
// latest step that any of them has begun.
bool Stop::may_begin(Rank& rank, int step) {
  const bool asked = processes_ && any_requested(rank);
  std::lock_guard lock{mutex_};
  if (processes_ ? asked : requested_ && step >= begun_) {
    ended_early_ = true;
    return false;
  }
  begun_ = std::max(begun_, step + 1);
  return true;
}

bool Stop::ended_early() const {
  std::lock_guard lock{mutex_};
  return ended_early_;
}

bool Stop::requested() const {
  std::lock_guard lock{mutex_};
  return requested_;
}

bool Stop::any_requested(Rank& rank) {
  if (!saves_ || !processes_) return requested();
  return std::ranges::count(gather_to_all(*rank.transport, requested() ? "1" : "0"), "1") > 0;
}

void Stop::saved() {
  std::lock_guard lock{mutex_};
  saved_ = true;
}

int Stop::steps() const {
  std::lock_guard lock{mutex_};
  return begun_;
}

}  // namespace lockstep
