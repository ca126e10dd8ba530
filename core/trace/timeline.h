#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/time/time.h"
#include "core/trace/span.h"

namespace lockstep {

/// The id of an interned string of a Timeline; 0 is the empty string.
using NameId = std::uint32_t;

/// A span as read from a trace. Missing numbers are -1, and missing strings are "".
struct TimelineSpan {
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::int64_t bytes = -1;
  NameId name = 0;
  int step = -1;
  int stage = -1;
  int microbatch = -1;
  int peer = -1;
  int sequence = -1;
  NameId group = 0;
  int group_size = -1;
  std::int16_t layer = -1;
  std::uint16_t algorithm = 0;  ///< a NameId, or 0 if the id does not fit
  Category category = Category::kernel;

  Picoseconds duration() const { return end - start; }
};
static_assert(sizeof(TimelineSpan) <= 72, "a million spans should stay below 72 MB");

/// Non-overlapping spans in order of time. Both starts and ends ascend, so both can be used for a
/// binary search.
using SpanRow = std::vector<TimelineSpan>;

/// The nesting level of a span. Each level has its own rows (step ⊃ action ⊃ kernel), so a step
/// that arrives after the spans it contains does not displace them.
enum class Band : std::uint8_t { step, action, kernel };
constexpr int band_count = 3;
Band band_of(Category category);

/// A span that was announced as still running, because it is long or the rank is stalled in it.
struct AnnouncedSpan {
  TimelineSpan span;  ///< `end` is the time of the announcement
};

/// One lane of a rank: its compute, or one direction of a communication stream.
class Lane {
 public:
  Lane(int tid, std::string name) : tid_(tid), name_(std::move(name)) {}

  int tid() const { return tid_; }
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  bool is_compute() const { return tid_ == 0; }

  /// Returns the rows of a band: row 0 holds the outermost spans, row 1 the spans within those, and
  /// so on.
  const std::vector<SpanRow>& rows(Band band) const {
    return bands_[static_cast<std::size_t>(band)].rows;
  }
  /// Returns the spans announced as open that have neither ended nor been withdrawn.
  const std::vector<AnnouncedSpan>& open() const { return open_; }

  /// Adds a span; spans may come in any order. rows() includes the span after settle().
  void append(const TimelineSpan& span);
  void announce(const TimelineSpan& span);
  /// Removes the announcement of a span that was never recorded.
  void withdraw(const TimelineSpan& span);
  /// Moves the appended spans to their rows. Takes time linear in the number of spans since the
  /// earliest new start.
  void settle();

 private:
  struct BandRows {
    std::vector<SpanRow> rows;
    std::vector<TimelineSpan> pending;
  };
  static void settle(BandRows& band);

  int tid_ = 0;
  std::string name_;
  std::array<BandRows, band_count> bands_;
  std::vector<AnnouncedSpan> open_;
};

struct MemorySample {
  Picoseconds at = 0;
  std::array<std::int64_t, memory_category_count> bytes{};
};

struct LossSample {
  Picoseconds at = 0;
  double loss = 0;
};

/// The data of one rank.
struct RankTimeline {
  int rank = 0;
  std::string name;                          ///< from process_name: "rank 0"
  std::vector<std::unique_ptr<Lane>> lanes;  ///< by tid
  std::vector<MemorySample> memory;          ///< by time
  std::vector<LossSample> losses;            ///< by time
  std::int64_t spans = 0;                    ///< number read so far
  std::int64_t clock_offset_ns = 0;          ///< the steady clock at the run's start
  std::int64_t clock_uncertainty_ns = 0;
  bool ended = false;
  std::int64_t spans_written = -1;  ///< the rank's own count, from its end event

  const Lane* compute() const;
};

/// One message, from the sender's lane to the receiver's.
struct Message {
  std::uint64_t id = 0;
  int from_rank = 0;
  int from_lane = 0;
  int to_rank = 0;
  int to_lane = 0;
  Picoseconds sent = 0;
  Picoseconds received = 0;
};

/// Predictions by the formula and by the simulator, for all steps from `first_step` on.
struct Prediction {
  int first_step = 0;
  std::string phase;  ///< name of these steps, if a run has several phases
  std::optional<double> bubble;
  std::optional<double> bubble_simulated;  ///< including uneven stages and messages
  std::string formula;
  std::string schedule;
  int stages = 0;
  int microbatches = 0;
};

/// The properties of the run, from the trace's hello.
struct RunInfo {
  std::string run, lesson, device, launch;
  std::string clock;    ///< "wall" or "modelled"; "" if unknown (traces from other tools)
  std::string cluster;  ///< the cluster that the modelled clock simulates
  int ranks = 0;
  std::vector<std::pair<std::string, int>> mesh;  ///< axis and size, as written
};

/// The time from a training step's first start to its last end, over all ranks.
struct StepWindow {
  int step = 0;
  Picoseconds start = 0;  ///< earliest start in the step
  Picoseconds end = 0;    ///< latest end
  int ranks_done = 0;     ///< ranks whose step span has ended
};

/// All data of a run that was read from its trace: ranks, their lanes, spans, messages and
/// counters. The reader appends, settle() sorts, everyone else only reads. Not thread-safe.
class Timeline {
 public:
  Timeline();

  const RunInfo& run() const { return run_; }
  const std::vector<std::unique_ptr<RankTimeline>>& ranks() const { return ranks_; }
  const RankTimeline* find_rank(int rank) const;
  const std::vector<Message>& messages() const { return messages_; }  ///< ordered by `sent`
  Picoseconds longest_message() const { return longest_message_; }
  const std::vector<StepWindow>& steps() const { return steps_; }  ///< ascending by step
  const StepWindow* find_step(int step) const;
  /// Returns the predictions, ordered by first step. A run with one phase has one prediction.
  const std::vector<Prediction>& predictions() const { return predictions_; }
  /// Returns the prediction for a step, or an empty one.
  const Prediction& prediction(int step) const;
  /// Returns whether the step has ended on every rank, or the run has ended.
  bool step_complete(const StepWindow& step) const;

  bool empty() const { return span_count_ == 0; }
  std::int64_t span_count() const { return span_count_; }
  Picoseconds start() const { return start_; }  ///< earliest start of any span
  /// Returns the latest time of any span's end or announcement.
  Picoseconds end() const { return end_; }
  bool ended() const;  ///< whether all ranks of the run have ended

  const std::string& name(NameId id) const { return *names_[id]; }

  /// A newly added span, for measuring display latency.
  struct FreshSpan {
    int rank = 0;
    Picoseconds end = 0;
  };
  /// From now on add() also appends each span to `fresh`, which must outlive the timeline; null
  /// stops this.
  void watch(std::vector<FreshSpan>* fresh) { fresh_ = fresh; }

  // Called by the reader.
  NameId intern(std::string_view name);
  RankTimeline& rank(int rank);  ///< creates the rank if it is new
  Lane& lane(int rank, int tid);
  RunInfo& run() { return run_; }
  void predict(Prediction prediction);
  void add(int rank, int tid, const TimelineSpan& span);
  void announce(int rank, int tid, const TimelineSpan& span);
  void withdraw(int rank, int tid, const TimelineSpan& span);
  void flow_start(std::uint64_t id, int rank, int tid, Picoseconds at);
  void flow_end(std::uint64_t id, int rank, int tid, Picoseconds at);
  void settle();
  void clear();  ///< also frees the memory

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  /// Unmatched ends of messages. Different phases of a run may reuse ids, so the first start of an
  /// id is matched with its first end, and so on.
  struct FlowEnds {
    std::deque<Message> starts, ends;
  };
  void meet(std::uint64_t id, FlowEnds& flow);

  RunInfo run_;
  std::vector<std::unique_ptr<RankTimeline>> ranks_;
  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> names_;
  std::vector<StepWindow> steps_;
  std::vector<Message> messages_, pending_messages_;
  std::unordered_map<std::uint64_t, FlowEnds> flows_;
  std::vector<Prediction> predictions_;
  Picoseconds longest_message_ = 0;
  std::int64_t span_count_ = 0;
  Picoseconds start_ = 0, end_ = 0;
  std::vector<FreshSpan>* fresh_ = nullptr;
};

}  // namespace lockstep
