#pragma once

#include <optional>

#include "core/trace/recorder.h"

namespace lockstep {

/// A span that is visible while it is open, so that observers can see what a rank is doing. The
/// trace announces the span after 100 ms, and Recorder::last_operations() reports it immediately.
/// Costs a few nanoseconds more than a span recorded at its end.
///
///   OpenSpan waiting{trace, lane, why, now};
///   ... block ...
///   waiting.end(later);   // records the span; without this call none is recorded
///
/// If the trace has announced the span but end() is not called, the trace withdraws the
/// announcement. If an exception prevents the call, the span stays open until the recorder's end.
///
/// Must begin and end on the thread that currently records on the lane. At most eight spans can be
/// visible on a lane; further spans are only recorded at their end.
class OpenSpan {
 public:
  OpenSpan(Recorder& trace, int lane, const Span& span, Picoseconds start);
  ~OpenSpan();
  OpenSpan(const OpenSpan&) = delete;
  OpenSpan& operator=(const OpenSpan&) = delete;

  /// Ends the span and records it, once.
  void end(Picoseconds at);

 private:
  struct Unseen {
    Span span;
    Picoseconds start;
  };
  static constexpr int unseen = -1, over = -2;

  Recorder& trace_;
  int lane_;
  int which_;  ///< index among the lane's open spans
  std::optional<Unseen> unseen_;
};

}  // namespace lockstep
