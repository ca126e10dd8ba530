#pragma once

#include "core/run/lesson.h"
#include "lessons/16_all_axes/experiment/groups_table.h"
#include "lessons/16_all_axes/prediction.h"

namespace lockstep {

/// The routing of a run on a mesh of all axes: records which experts each token chose, and lets the
/// single device of the comparison choose the same ones.
class RecordedRouting {
 public:
  /// Sets the lesson's builder, its run with balanced routing and its comparison. `flags.chosen`
  /// returns the techniques, and `phases` the run's phases. The lesson and the flags must outlive
  /// this object, and this object the run.
  template <class Flags, class Phases>
  RecordedRouting(Lesson& lesson, const Flags& flags, Phases phases) : lesson_(lesson) {
    lesson.hooks.build = [this, &flags](const Options& options) {
      quiet_ = options.output.quiet;
      if (options.output.parity)
        log_.set_replay(options.plan.mesh.size(Axis::dp), options.plan.batch.microbatches,
                        options.plan.mesh.size(Axis::cp));
      return builder_of(flags.chosen(options), log_);
    };
    lesson.hooks.alternatives.push_back(
        {"equally many tokens for every expert", [&flags, phases](const Options& options) {
           return with_equal_rows(options.plan, flags.chosen(options), phases());
         }});
    lesson.hooks.compare = [this] {
      log_.end_replay();
      return different_choices(log_);
    };
  }
  RecordedRouting(const RecordedRouting&) = delete;
  RecordedRouting& operator=(const RecordedRouting&) = delete;

  RoutingRecord& log() { return log_; }
  bool quiet() const { return quiet_; }

  /// Reports the groups of the mesh and the load of the experts. Every rank must call it after
  /// Lesson::finish.
  void report(Rank& rank, const AllAxes& chosen, const SentTo& sent) {
    if (lesson_.options().platform.launch == Launch::mpi) collect_routing(rank, log_);
    report_groups(lesson_, rank, chosen, log_, sent);
  }
  /// Call it after the run. Prints the tokens whose experts the single device chose differently.
  void print_differences() const {
    if (!quiet_) print_flips(log_);
  }

 private:
  Lesson& lesson_;
  RoutingRecord log_;
  bool quiet_ = false;
};

}  // namespace lockstep
