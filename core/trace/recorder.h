#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/base/span.h"
#include "core/time/time.h"
#include "core/trace/record.h"

namespace lockstep {

class Clock;

/// One trace event before formatting: a span, a counter, the announcement of a span that is still
/// open (`end` is then the time of the announcement), or the withdrawal of an announcement that no
/// span followed. Plain data.
struct TraceEvent {
  enum class Kind : std::uint8_t { span, memory, loss, counter, metadata, open, withdrawn };
  Kind kind = Kind::span;
  int lane = 0;
  int step = -1;
  Span span{};
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::array<std::int64_t, memory_category_count> bytes{};  ///< memory counter
  int state = -1;                                           ///< memory counter
  double value = 0;                                         ///< loss
  std::shared_ptr<const std::string> text;                  ///< metadata, counter: args as JSON
};

/// Records one rank's trace. Recording a span takes about ten nanoseconds and no system call. It
/// takes a lock only if the group or the algorithm differs from the one in the
/// lane's last span. Recording a counter or metadata always takes the lock. The TraceWriter's
/// thread removes the events.
///
/// A lane belongs to one thread at a time, and its transfer to another thread must be synchronized
/// (for example by the lock of a work queue). Different threads may use different lanes
/// concurrently. All other functions are thread-safe. Events on a lane stay in order.
class Recorder {
 public:
  /// A recorder that is off produces no events, but it still tracks the last operations.
  explicit Recorder(bool on = true);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool on() const { return on_; }
  /// Kernel spans are numerous, so they are recorded only on request.
  bool kernels() const { return kernels_; }
  void set_kernels(bool kernels) { kernels_ = kernels; }
  /// Sets the clock on which recorded times are measured. The clock must outlive the recorder. On
  /// the wall clock, a span's start determines how long it has been open. (Called by Stream.)
  void set_clock(const Clock& clock) { clock_.store(&clock, std::memory_order_release); }

  /// Returns the lane with this name (the trace's tid), adding it if needed. Lane 0 is "compute".
  /// Throws std::length_error beyond 4096 lanes.
  int add_lane(const std::string& name);
  std::vector<std::string> lanes() const;

  /// Copies `text` for a Span to point to; the copy lives as long as the recorder.
  const char* keep(const std::string& text);

  /// Sets the training step of subsequent events that do not specify a step; -1 means no step.
  void set_step(int step) { step_.store(step, std::memory_order_relaxed); }
  int step() const { return step_.load(std::memory_order_relaxed); }

  void span(int lane, const Span& span, Picoseconds start, Picoseconds end);
  /// Ends the spans of a lane that an exception has left open (OpenSpan), at `at` or, if they began
  /// later, at their start. For a rank that survives the exception; call it while no OpenSpan of
  /// the lane exists.
  void end_abandoned(int lane, Picoseconds at);
  /// `state` is the number of a state of the memory's parts, or -1 (MemoryParts::state).
  void memory(const MemoryUse& use, Picoseconds at, int state = -1);
  void loss(double value, Picoseconds at);
  /// Records numbers of a layer at a time, such as the tokens that each expert gets; `layer` is -1
  /// if they belong to none. `name` must have static lifetime. The names of the series must differ
  /// from "step" and "layer", and need no escapes in JSON.
  void counter(const char* name, int layer,
               const std::vector<std::pair<std::string, std::int64_t>>& series, Picoseconds at);
  /// Records a metadata event about the run; `name` must have static lifetime.
  void metadata(const char* name, std::string args_json);

  /// Returns the rank's last operations and the ones in progress: at most `count` spans that have
  /// ended, in order, then all open spans, with the innermost last. Each operation takes one line,
  /// such as
  ///
  ///   step 3, PP:1F2 on compute: 12.3 ms, ended 4.0 s ago
  ///   step 3, recv from rank 2 on compute: open for 61 s
  ///
  /// Thread-safe; works even if the recorder is off. A lane keeps at least its last 32 records.
  std::vector<std::string> last_operations(int count) const;

  /// The innermost open span of a lane, and how long it has been open. Thread-safe.
  struct OpenNow {
    std::string name;
    double seconds = 0;
  };
  std::optional<OpenNow> innermost_open(int lane) const;

  // Called by the writer's thread.
  using Take = std::function<void(const TraceEvent&)>;
  /// Takes all events since the last call, lane by lane. The event is valid only during the call of
  /// `each`.
  void take(const Take& each);
  /// Like take(), but returns copies.
  std::vector<TraceEvent> drain();
  /// Returns the number of spans recorded.
  std::int64_t span_count() const;
  /// Emits spans that have been open for 100 ms of wall time (or all open spans, at a run's end) as
  /// events of kind `open`, and again after 200, 400... ms. `latest` is the latest time in the
  /// trace; on the modelled clock, it stands for the current time.
  void take_open(Picoseconds latest, bool all, const Take& each);

 private:
  friend class OpenSpan;
  struct Lane;
  struct Block;
  struct Label;

  Lane& lane(int id) const;
  std::uint16_t label(Lane& lane, const Span& span);
  std::uint16_t find_label(Lane& lane, const Label& label);
  void fill(TraceEvent& event, const Record::Words& words);
  /// Returns the time at which a span was opened, on the steady clock; derived from `start` if
  /// `since` is -1.
  std::int64_t opened(std::int64_t since, Picoseconds start) const;
  bool on_wall_clock() const;
  std::string describe(int lane, const Span& span) const;
  void put_aside(TraceEvent event);

  const bool on_;
  bool kernels_ = false;
  std::atomic<int> step_{-1};
  std::atomic<const Clock*> clock_{nullptr};
  std::array<std::atomic<Lane*>, 32> first_lanes_{};  ///< fast path, enough lanes for most runs
  std::unique_ptr<Block> block_;                      ///< all lanes, at stable addresses

  mutable std::mutex mutex_;  ///< guards the following: names and rare events
  std::vector<std::string> lanes_;
  std::set<std::string> kept_;
  std::vector<Label> labels_;
  std::vector<TraceEvent> aside_;

  std::mutex taking_;  ///< guards the state that only the writer's thread should use
  std::vector<Label> labels_seen_;
};

}  // namespace lockstep
