#pragma once

#include <mutex>
#include <string>

namespace lockstep {

struct Rank;

/// Ends training early. With --save, an interruption (SIGTERM, Ctrl-C) lets the current step end on
/// all ranks; then they save, and the run ends. All ranks end after the same step.
class Stop {
 public:
  /// `saves` tells whether the run was given --save; without it, interruptions end the run at once.
  /// `processes` tells whether each rank has its own Stop; the ranks then agree by messages before
  /// each step. Ranks that are threads share one Stop.
  Stop(bool saves, bool processes) : saves_(saves), processes_(processes) {}

  /// Asks for the end. Returns false if the run should end at once: if it does not save, has
  /// already been asked, or has saved. Any thread may call this.
  bool request();
  /// Each rank calls this before it begins a step. Returns whether the rank should begin it.
  bool may_begin(Rank& rank, int step);
  /// Returns whether may_begin() has ended the training.
  bool ended_early() const;
  /// Returns whether the run has been asked to end.
  bool requested() const;
  /// Collective over processes: returns whether any of them has been asked.
  bool any_requested(Rank& rank);
  /// Call this once everything is saved. A later request ends the run at once.
  void saved();

  /// The number of steps that have begun. After training, all ranks have completed this many.
  int steps() const;

 private:
  bool saves_, processes_;
  mutable std::mutex mutex_;
  bool requested_ = false;
  bool saved_ = false;
  bool ended_early_ = false;
  int begun_ = 0;  ///< steps
};

}  // namespace lockstep
