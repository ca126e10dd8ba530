#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/trace/format.h"
#include "core/trace/recorder.h"
#include "core/trace/streamer.h"

namespace lockstep {

/// What a rank's trace says of the run in its first event, which is also the hello on the wire
/// (DESIGN §5). `mesh` and `predicted` are JSON.
struct TraceHello {
  std::string run;
  std::string lesson;
  int rank = 0;
  int ranks = 1;
  std::string mesh = "{}";
  std::string device = "cpu";
  std::string launch = "threads";
  std::string clock = "wall";
  std::string cluster;
  std::int64_t clock_offset_ns = 0;       ///< the steady clock at ts = 0
  std::int64_t clock_uncertainty_ns = 0;  ///< of that offset, against rank 0's host
  std::string predicted = "{}";
};

/// The event that opens a trace, as one line of it.
std::string hello_line(const TraceHello& hello);

/// Writes the traces of this process's ranks: one thread takes events out of the recorders every
/// few milliseconds, formats them and appends them to DIR/rank<r>.json. The file is the queue:
/// whatever is streamed to a viewer is read back from it (see Streamer), so a slow viewer slows no
/// rank. What has been open for long is announced (see Recorder::take_open).
class TraceWriter {
 public:
  /// `viewer` is HOST:PORT, or empty. Throws RunError if the directory can't be written.
  TraceWriter(std::filesystem::path directory, const std::string& viewer, const std::string& token);
  ~TraceWriter();

  /// From now on `recorder`'s events go to the rank's file. The recorder must live until finish().
  void add(const TraceHello& hello, Recorder& recorder);
  /// How long finish() waits for a viewer that takes nothing, in seconds.
  static constexpr double patient = 5, in_a_hurry = 0.3;

  /// Writes what is left, what is still open (of ranks that go on, or have died), and each file's
  /// `end` event with the count of its spans; then gives the viewer the time that it needs to read
  /// to the end. What ranks record from here on is not written. The first call does it, others wait
  /// until it is done. Throws RunError if the trace could not be written.
  void finish(double patience_seconds = patient);

 private:
  struct File {
    int rank;
    Recorder* recorder;
    int descriptor;
    std::filesystem::path path;
    std::size_t lanes_written = 0;
    Picoseconds last = 0;    ///< the latest time in the file
    std::int64_t spans = 0;  ///< taken out of the recorder; the `end` event tells it
    bool failed = false;     ///< could not be written; its events are dropped
  };

  void work();
  void finish_files();
  void write_new(File& file, bool all_open = false);
  void append(File& file, const std::string& text);

  std::filesystem::path directory_;
  std::unique_ptr<Streamer> streamer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<File>> files_;
  std::string text_;  ///< on its way to a file
  bool stop_ = false;
  std::once_flag finished_;
  std::string failure_;  ///< of the first file that could not be written
  std::thread thread_;
};

/// Joins rank files into one trace, as text: their lines, one opening bracket.
void merge_traces(const std::vector<std::filesystem::path>& files,
                  const std::filesystem::path& into);

}  // namespace lockstep
