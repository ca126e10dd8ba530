#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/operations/operation_log.h"
#include "core/run/files/run_folder.h"
#include "core/run/options/options.h"
#include "core/text/console.h"
#include "core/trace/writer.h"

namespace lockstep {

/// The records that a process keeps while its ranks run: their traces, which it writes to the run's
/// folder, and on the modelled clock their operations.
class Recording {
 public:
  /// `console` must outlive the recording.
  explicit Recording(const Console& console) : console_(console) {}

  /// Starts writing to `folder_`, and to the viewer if there is one; nothing with --trace none.
  void open(RunFolder folder_, const Options& options, bool replays);
  bool is_open() const { return open_; }
  /// Warns, once per run, that the trace can't be written; the run continues. Any thread may call
  /// this.
  void warn(const std::string& why);
  /// Writes the remaining events, and gives the viewer time to read them.
  void finish() {
    if (writer) writer->finish();
  }
  /// Finishes the traces of a run that has already failed, and writes whatever can still be
  /// written.
  void keep() noexcept;

  RunFolder folder;
  std::unique_ptr<TraceWriter> writer;        ///< null without a trace
  std::unique_ptr<OperationBook> operations;  ///< null if they are not recorded
  std::int64_t clock_uncertainty_ns = 0;      ///< of this process's clock relative to rank 0's

 private:
  const Console& console_;
  bool open_ = false;
  std::atomic<bool> warned_{false};
};

}  // namespace lockstep
