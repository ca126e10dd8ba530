#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/trace/format.h"
#include "core/trace/recorder.h"
#include "core/trace/streamer.h"

namespace lockstep {

/// The contents of a rank's first event, which is also the hello on the wire
/// (core/trace/README.md). `mesh`, `predicted` and `cluster_description`, a cluster file's text or
/// "", are JSON.
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
  std::string cluster_description;
  std::string config = "{}";              ///< a JSON object: what is trained, and how
  std::int64_t clock_offset_ns = 0;       ///< the steady clock's reading at ts = 0
  std::int64_t clock_uncertainty_ns = 0;  ///< uncertainty of that offset, relative to rank 0's host
  std::string predicted = "{}";
};

/// Returns the first event of a trace, as a line.
std::string hello_line(const TraceHello& hello);

/// Writes the traces of this process's ranks: every few milliseconds, one thread takes events from
/// the recorders, formats the events and appends them to DIR/rank<r>.json. The file also serves as
/// a queue for the Streamer, which reads the file and sends its contents to the viewer. A slow
/// viewer therefore slows down no rank. Spans that stay open for long are announced (see
/// Recorder::take_open).
///
/// A file that can't be written, for example because the disk is full, does not stop the run: the
/// file ends with its last whole line, without an `end` event, and the rank's later events are
/// dropped.
class TraceWriter {
 public:
  /// Called on any thread, with a one-line message, once for each file that can no longer be
  /// written.
  using Warning = std::function<void(const std::string&)>;

  /// `viewer` is HOST:PORT or empty.
  TraceWriter(std::filesystem::path directory, const std::string& viewer, const std::string& token,
              Warning warning = {});
  ~TraceWriter();

  /// Writes `recorder`'s events to the rank's file from now on. `recorder` must live until
  /// finish(). Replaces a trace that Lockstep wrote, but no other file.
  void add(const TraceHello& hello, Recorder& recorder);
  /// Values for finish(): the seconds to wait for a viewer that has stopped reading.
  static constexpr double patient = 5, in_a_hurry = 0.3;

  /// Writes the remaining events, the spans that are still open (because their ranks are still
  /// running, or have died), and each file's `end` event with the file's span count. Then gives the
  /// viewer time to read to the end (see Streamer::finish). Later events are not written. Only the
  /// first call does all this; concurrent calls wait until it is done.
  void finish(double patience_seconds = patient);

 private:
  struct File {
    int rank;
    Recorder* recorder;
    int descriptor;  ///< -1 if the file could not be opened
    std::filesystem::path path;
    std::int64_t bytes = 0;  ///< written so far, in whole lines
    std::size_t lanes_written = 0;
    Picoseconds last = 0;    ///< latest time in the file
    std::int64_t spans = 0;  ///< taken from the recorder; reported in the `end` event
    bool failed = false;     ///< whether a write failed; further events are dropped
  };

  void work();
  void finish_files();
  void write_new(File& file, bool all_open = false);
  void append(File& file, const std::string& text);
  void fail(File& file, const std::string& why);

  std::filesystem::path directory_;
  Warning warning_;
  std::unique_ptr<Streamer> streamer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<File>> files_;
  std::string text_;  ///< buffer for formatted lines
  bool stop_ = false;
  std::once_flag finished_;
  std::thread thread_;
};

/// Returns whether a trace may replace the file: it is absent, is empty, or begins like a trace
/// written by Lockstep.
bool is_own_trace(const std::filesystem::path& file);
/// Returns whether the file's last line is its `end` event, so that it contains every event.
bool is_complete_trace(const std::filesystem::path& file);

/// Merges rank files into one trace: a single opening bracket, followed by the lines of all files.
/// Throws RunError if the trace cannot be written.
void merge_traces(const std::vector<std::filesystem::path>& files,
                  const std::filesystem::path& into);

}  // namespace lockstep
