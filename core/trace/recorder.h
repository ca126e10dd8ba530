#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/device/memory.h"
#include "core/time/time.h"
#include "core/trace/record.h"
#include "core/trace/span.h"

namespace lockstep {

class Clock;

/// One line of a trace before it is text: a span, one end of a message, a counter, or word of a
/// span that is still open (`end` is then the time of saying so), or that it left no span after all
/// (withdrawn). Plain data.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    span,
    flow_start,
    flow_end,
    memory,
    loss,
    metadata,
    open,
    withdrawn
  };
  Kind kind = Kind::span;
  int lane = 0;
  int step = -1;
  Span span{};
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::uint64_t flow = 0;                                   ///< id, the same on both ends
  std::array<std::int64_t, memory_category_count> bytes{};  ///< memory counter
  double value = 0;                                         ///< loss
  std::shared_ptr<const std::string> text;                  ///< metadata: its args, as JSON
};

/// One rank's side of the trace. The rank's threads put events in, which costs them some ten
/// nanoseconds, no lock and no call into the system; the TraceWriter's thread takes them out.
///
/// A lane belongs to one thread at a time, and whoever hands it to another orders that (by the lock
/// under which work is queued, say). Different threads may use different lanes of one recorder at
/// once, and everything else at any time. Events of a lane stay in order.
class Recorder {
 public:
  /// A recorder that is `off` leaves nothing to take out; it still knows the last operations.
  explicit Recorder(bool on = true);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool on() const { return on_; }
  /// Kernel spans are many; they are kept only where asked for.
  bool kernels() const { return kernels_; }
  void set_kernels(bool kernels) { kernels_ = kernels; }
  /// The clock whose times are recorded; it must outlive the recorder. On the wall clock a span's
  /// start says since when it is open. (A Stream tells this its recorder.)
  void set_clock(const Clock& clock) { clock_.store(&clock, std::memory_order_release); }

  /// The lane (the trace's tid) of that name, a new one if there is none; 4096 at most
  /// (std::length_error). Lane 0 is "compute".
  int add_lane(const std::string& name);
  std::vector<std::string> lanes() const;

  /// A copy of `text` that lives as long as the recorder, for a Span to point to.
  const char* keep(const std::string& text);

  /// The training step that events belong to from now on, where a span does not say its own; -1:
  /// none.
  void set_step(int step) { step_.store(step, std::memory_order_relaxed); }
  int step() const { return step_.load(std::memory_order_relaxed); }

  void span(int lane, const Span& span, Picoseconds start, Picoseconds end);
  void flow_start(int lane, std::uint64_t id, Picoseconds at);
  void flow_end(int lane, std::uint64_t id, Picoseconds at);
  void memory(const MemoryUse& use, Picoseconds at);
  void loss(double value, Picoseconds at);
  /// Something about the run from here on, as a metadata event: `name` has static lifetime.
  void metadata(const char* name, std::string args_json);

  /// What the rank has done last, and what it is in the middle of: at most `count` spans that have
  /// ended, in that order, then all that are open, the innermost last. A line each, such as
  ///
  ///   step 3, PP:1F2 on compute: 12.3 ms, ended 4.0 s ago
  ///   step 3, recv from rank 2 on compute: open for 61 s
  ///
  /// From any thread at any time, also of a recorder that is off. A lane remembers its last 32
  /// records at least.
  std::vector<std::string> last_operations(int count) const;

  // For the writer's thread.
  using Take = std::function<void(const TraceEvent&)>;
  /// Takes out what has come since the last call, lane by lane; the event is only lent.
  void take(const Take& each);
  /// The same, as copies.
  std::vector<TraceEvent> drain();
  /// How many spans have been put in.
  std::int64_t span_count() const;
  /// Spans that have been open for 100 ms of wall time (or all, at a run's end), as events of kind
  /// `open`; again after 200, 400... ms. `latest` is the trace's last time so far: where the clock
  /// is modelled, nobody knows a better one.
  void take_open(Picoseconds latest, bool all, const Take& each);

 private:
  friend class OpenSpan;
  struct Lane;
  struct Block;
  struct Label;

  Lane& lane(int id) const;
  std::uint16_t label(Lane& lane, const Span& span);
  std::uint16_t find_label(Lane& lane, const Label& label);
  void flow(Record::Kind kind, int lane, std::uint64_t id, Picoseconds at);
  void fill(TraceEvent& event, const Record::Words& words);
  /// Since when a span is open, on the steady clock; `since` where the start doesn't tell.
  std::int64_t opened(std::int64_t since, Picoseconds start) const;
  bool starts_tell() const;
  std::string describe(int lane, const Span& span) const;
  void put_aside(TraceEvent event);

  const bool on_;
  bool kernels_ = false;
  std::atomic<int> step_{-1};
  std::atomic<const Clock*> clock_{nullptr};
  std::array<std::atomic<Lane*>, 32> first_lanes_{};  ///< those that most runs make do with
  std::unique_ptr<Block> block_;                      ///< all, at addresses that stay

  mutable std::mutex mutex_;  ///< of what follows: names, and events that are few
  std::vector<std::string> lanes_;
  std::set<std::string> kept_;
  std::vector<Label> labels_;
  std::vector<TraceEvent> aside_;

  std::mutex taking_;  ///< of what the writer's thread alone uses, lest there are two
  std::vector<Label> labels_seen_;
};

}  // namespace lockstep
