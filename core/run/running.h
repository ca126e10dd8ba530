#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/run/files/rank_report.h"
#include "core/run/files/run_folder.h"
#include "core/run/lesson.h"
#include "core/run/report/console.h"
#include "core/run/report/process_memory.h"
#include "core/run/report/results.h"
#include "core/trace/writer.h"

namespace lockstep {

/// The state of a run in progress.
struct Lesson::Running {
  /// One rank's current state.
  struct Live {
    RankRecord record;
    Traffic traffic_before;  ///< before the phase
    Picoseconds step_start = 0;
    std::int64_t began = 0;  ///< steady-clock nanoseconds at the first step
    bool traced = false;
  };

  Running(const Options& options, RunFolder folder_, const Console& console_)
      : folder(std::move(folder_)),
        console(console_),
        progress(console_, options.run.steps, options.output.quiet),
        live(static_cast<std::size_t>(options.run.ranks)) {
    if (options.platform.device == "cpu") program = resident_bytes();
    if (options.output.trace != "none")
      writer = std::make_unique<TraceWriter>(folder.path, options.output.view,
                                             options.output.view_token);
  }
  /// Ends the traces of a run that has already failed, as far as they can still be written.
  void keep_traces(double patience_seconds = TraceWriter::in_a_hurry) noexcept {
    try {
      if (writer) writer->finish(patience_seconds);
    } catch (const std::exception&) {
    }
  }
  /// Makes the rank's operations available to doing(). The rank must outlive this object, unless
  /// the process ends.
  void know(const Rank& rank) {
    std::lock_guard lock{known_mutex};
    known[rank.id] = &rank.trace;
  }
  /// The rank's last operations, as last_operations() formats them.
  std::string doing(int rank) const {
    std::lock_guard lock{known_mutex};
    const auto found = known.find(rank);
    return found != known.end() ? last_operations(*found->second) : "";
  }
  Live& of(const Rank& rank) { return live[static_cast<std::size_t>(rank.id)]; }

  RunFolder folder;
  Console console;
  Progress progress;
  std::unique_ptr<TraceWriter> writer;
  std::optional<ResidentBytes> program;   ///< before ranks are created; only with --device cpu
  std::int64_t clock_uncertainty_ns = 0;  ///< of this process's clock relative to rank 0's
  mutable std::mutex known_mutex;
  std::map<int, const Recorder*> known;
  SumOrder order;                          ///< rank 0's, for the following phases
  std::vector<SumOrder> orders;            ///< by phase
  std::vector<Live> live;                  ///< by rank; each rank accesses only its own
  std::map<std::string, std::string> own;  ///< the lesson's part of the report; only rank 0
                                           ///< accesses it
  std::vector<RankRecord> records;         ///< by rank; on rank 0, once all are done
};

}  // namespace lockstep
