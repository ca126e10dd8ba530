#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/device/memory.h"
#include "core/time/time.h"
#include "core/trace/span.h"

namespace lockstep {

/// One line of a trace before it is text: a span, one end of a message, or a counter. Plain data.
struct TraceEvent {
  enum class Kind : std::uint8_t { span, flow_start, flow_end, memory, loss, metadata };
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

/// One rank's side of the trace: the rank's threads put events in, which costs them a copy; the
/// TraceWriter's thread takes them out. Events of one thread stay in order.
class Recorder {
 public:
  /// A recorder that is `off` drops everything.
  explicit Recorder(bool on = true) : on_(on) {}

  bool on() const { return on_; }
  /// Kernel spans are many; they are kept only where asked for.
  bool kernels() const { return kernels_; }
  void set_kernels(bool kernels) { kernels_ = kernels; }

  /// The lane (the trace's tid) of that name, a new one if there is none. Lane 0 is "compute".
  int add_lane(const std::string& name);
  std::vector<std::string> lanes() const;

  /// A copy of `text` that lives as long as the recorder, for a Span to point to.
  const char* keep(const std::string& text);

  /// The training step that events belong to from now on; -1: none.
  void set_step(int step) { step_ = step; }
  int step() const { return step_; }

  void span(int lane, const Span& span, Picoseconds start, Picoseconds end);
  void flow_start(int lane, std::uint64_t id, Picoseconds at);
  void flow_end(int lane, std::uint64_t id, Picoseconds at);
  void memory(const MemoryUse& use, Picoseconds at);
  void loss(double value, Picoseconds at);
  /// Something about the run from here on, as a metadata event: `name` has static lifetime.
  void metadata(const char* name, std::string args_json);

  /// Takes out what has come since the last call (the writer's thread).
  std::vector<TraceEvent> drain();
  /// How many spans have been put in.
  std::int64_t span_count() const { return span_count_; }

 private:
  void push(const TraceEvent& event);

  bool on_ = true;
  bool kernels_ = false;
  std::atomic<int> step_{-1};
  mutable std::mutex mutex_;
  std::vector<std::string> lanes_{"compute"};
  std::set<std::string> kept_;
  std::vector<TraceEvent> events_;
  std::atomic<std::int64_t> span_count_{0};
};

}  // namespace lockstep
