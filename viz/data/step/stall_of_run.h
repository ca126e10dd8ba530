#pragma once

#include <cstdint>
#include <optional>

#include "viz/data/step/stall_picture.h"
#include "viz/read/timeline/timeline.h"

namespace lockstep::viz {

/// Shows which rank waits for which at the end of the viewer's run, if the run has stalled.
class StallOfRun {
 public:
  /// Shows flight-recorder dumps, which have no timeline.
  void set(const flight::Stall& stall) { picture_ = picture_of(stall); }
  /// Analyses the end of a trace once the trace is complete; if it is `live`, more events may
  /// arrive. Returns quickly if nothing has changed.
  void update(const Timeline& timeline, bool live);
  /// Returns null if the run has not stalled.
  const StallPicture* picture() const { return picture_ ? &*picture_ : nullptr; }

 private:
  struct Key {
    std::int64_t spans = -1;
    bool complete = false;
    bool operator==(const Key&) const = default;
  };
  Key analysed_;
  std::optional<StallPicture> picture_;
};

}  // namespace lockstep::viz
