#pragma once

#include <optional>

#include "core/trace/recorder.h"

namespace lockstep {

/// A span while it lasts, so that others can see what a rank is in the middle of: the trace says so
/// once it has lasted for 100 ms, and Recorder::last_operations() at once. Costs some nanoseconds
/// more than a span that is only recorded when it is over.
///
///   OpenSpan waiting{trace, lane, why, now};
///   ... block ...
///   waiting.end(later);   // records it; without this it leaves no span, as a wait that was none
///
/// If it was announced and leaves no span, the trace withdraws the announcement.
///
/// Begins and ends on the thread that works on the lane. Eight can be open on one lane at once;
/// more are recorded when they end, and not seen before.
class OpenSpan {
 public:
  OpenSpan(Recorder& trace, int lane, const Span& span, Picoseconds start);
  ~OpenSpan();
  OpenSpan(const OpenSpan&) = delete;
  OpenSpan& operator=(const OpenSpan&) = delete;

  /// Records it, once.
  void end(Picoseconds at);

 private:
  struct Unseen {
    Span span;
    Picoseconds start;
  };
  static constexpr int unseen = -1, over = -2;

  Recorder& trace_;
  int lane_;
  int which_;  ///< of the lane's open ones
  std::optional<Unseen> unseen_;
};

}  // namespace lockstep
