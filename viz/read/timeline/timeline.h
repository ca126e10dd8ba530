#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/memory_use.h"
#include "core/time/time.h"
#include "viz/read/timeline/growing_array.h"
#include "viz/read/timeline/lane.h"
#include "viz/read/timeline/memory_states.h"

namespace lockstep {

/// The earliest time in a trace; latest_time is the latest.
constexpr Picoseconds earliest_time = -1'000'000'000'000'000'000;
/// The largest number of bytes of a span or a memory category. Sums over categories fit in 64 bits.
constexpr std::int64_t most_bytes = std::int64_t{1} << 60;

struct MemorySample {
  Picoseconds at = 0;
  std::array<std::int64_t, memory_category_count> bytes{};
  int state = -1;  ///< in RankTimeline::memory_states, or -1
  std::int64_t total() const;
};

/// A rank's memory at the peak of a step, or of the time between two steps.
struct StatePeak {
  int step = -1;  ///< the last step before the end of this time
  int state = 0;  ///< in RankTimeline::memory_states
};

struct LossSample {
  Picoseconds at = 0;
  double loss = 0;
};

/// Numbers that a rank counted in a step, such as the tokens that each expert gets.
struct CounterSample {
  Picoseconds at = 0;
  NameId name = 0;
  int step = -1;
  int layer = -1;
  std::vector<std::pair<NameId, double>> series;  ///< names and values
};

/// The data of one rank.
struct RankTimeline {
  int rank = 0;
  std::string name;                          ///< from process_name: "rank 0"
  std::vector<std::unique_ptr<Lane>> lanes;  ///< by tid
  std::vector<MemorySample> memory;          ///< by time
  bool memory_in_order = true;               ///< until settle() sorts it
  std::optional<MemorySample> memory_peak;   ///< the first sample with the highest total
  std::int64_t highest_total = 0;            ///< of all samples and peaks
  MemoryStates memory_states;
  std::vector<StatePeak> state_peaks;      ///< by time; empty in traces of older versions
  std::vector<LossSample> losses;          ///< in order of arrival
  std::vector<CounterSample> counters;     ///< in order of arrival; other tools' are left out
  std::map<NameId, std::set<int>> groups;  ///< the members of the rank's groups, by name
  /// The parts of each tensor that the rank stores, as JSON (core/plan/stored_slices.h); "" if
  /// unknown.
  std::string slices;
  std::int64_t spans = 0;            ///< number read so far
  std::int64_t clock_offset_ns = 0;  ///< the steady clock at the run's start
  std::int64_t clock_uncertainty_ns = 0;
  /// In a trace of another tool: how far aligning the ranks' clocks moved this rank's first span,
  /// and how much its clock drifts, in seconds per second.
  Picoseconds clock_moved = 0;
  double clock_drift = 0;
  bool ended = false;
  std::int64_t spans_written = -1;  ///< the rank's own count, from its end event

  const Lane* compute() const;
};

/// One message, from the span that sends it to the one that receives it. Different
/// phases of a run may reuse ids.
struct TimelineMessage {
  std::uint64_t id = 0;
  int from_rank = 0;
  int from_lane = 0;
  int to_rank = 0;
  int to_lane = 0;
  Picoseconds sent = 0, left = 0;          ///< the sending span's start and end
  Picoseconds arriving = 0, received = 0;  ///< the receiving span's
  bool has_receive = true;                 ///< whether there is a receiving span
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
  std::string cluster;  ///< the name of the cluster that the modelled clock simulates
  std::string cluster_description;  ///< as a cluster file; "" in traces of older versions
  int ranks = 0;
  std::vector<std::pair<std::string, int>> mesh;  ///< axis and size, as written
  /// The training configuration: names such as "layers" or "--overlap", and their values as text.
  /// Empty in traces of older versions and other tools.
  std::vector<std::pair<std::string, std::string>> config;
  /// The tool that wrote the trace, if it was not Lockstep: "PyTorch". Then stages, waits, messages
  /// and steps are inferred.
  std::string tool;
  std::vector<std::string> notes;  ///< sentences on how they were inferred
  /// How well the ranks' clocks are known once they are aligned on collectives; -1: unknown.
  Picoseconds clock_residual = -1;
  bool operator==(const RunInfo&) const = default;
};

/// The time from a training step's first start to its last end, over all ranks.
struct StepWindow {
  int step = 0;
  Picoseconds start = 0;  ///< earliest start in the step
  Picoseconds end = 0;    ///< latest end
  int ranks_done = 0;     ///< ranks whose step span has ended
};

/// All data read from a run's trace: ranks, their lanes, spans, messages and counters. The reader
/// appends, settle() sorts, and all other code only reads. Not thread-safe. Reading takes nearly
/// linear time, whatever the order of events in the trace.
class Timeline {
 public:
  Timeline();

  const RunInfo& run() const { return run_; }
  const std::vector<std::unique_ptr<RankTimeline>>& ranks() const { return ranks_; }  ///< ascending
  const RankTimeline* find_rank(int rank) const;
  const GrowingArray<TimelineMessage>& messages() const {
    return messages_;
  }  ///< ordered by `sent`
  /// The longest time between a message's start and its arrival. (On the wall clock, a sender may
  /// notice late that it could send, and its span then starts after the arrival.)
  Picoseconds longest_message() const { return longest_message_; }
  const std::vector<StepWindow>& steps() const { return steps_; }  ///< ascending by step
  const StepWindow* find_step(int step) const;
  /// Returns the predictions by first step. A run with one phase has a single prediction.
  const std::map<int, Prediction>& predictions() const { return predictions_; }
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
  /// Returns the id of a name, or nothing if no event has it.
  std::optional<NameId> find_name(std::string_view name) const;
  NameId name_count() const { return static_cast<NameId>(names_.size()); }

  /// A newly added span, for measuring display latency.
  struct FreshSpan {
    int rank = 0;
    Picoseconds end = 0;
  };
  /// After this call, add() also appends each span to `fresh`, which must outlive the timeline.
  /// Null turns this off.
  void watch(std::vector<FreshSpan>* fresh) { fresh_ = fresh; }

  // Called by the reader.
  NameId intern(std::string_view name);
  RankTimeline& rank(int rank);  ///< creates the rank if it is new
  /// Adds members to a group of a rank.
  void add_group(int rank, NameId name, const std::vector<int>& members);
  Lane& lane(int rank, int tid);
  RunInfo& run() { return run_; }
  void predict(Prediction prediction);
  void add(int rank, int tid, const TimelineSpan& span);
  void announce(int rank, int tid, const TimelineSpan& span);
  void withdraw(int rank, int tid, const TimelineSpan& span);
  void sample_memory(int rank, const MemorySample& sample);
  void add_peak(int rank, const StatePeak& peak);
  void end(int rank, std::int64_t spans_written);
  /// Adds one end of a message whose span does not name it, as in traces before format 2: settle()
  /// finds the communication span that starts (or ends) at this time.
  void flow_start(std::uint64_t id, int rank, int tid, Picoseconds at);
  void flow_end(std::uint64_t id, int rank, int tid, Picoseconds at);
  void settle();
  /// Moves the data of `other` into this timeline, as if the trace of `other` had been read after
  /// this timeline's.
  void absorb(Timeline&& other);
  void clear();  ///< also frees the memory

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  /// The span at one end of a message.
  struct MessageEnd {
    std::uint64_t id = 0;
    bool sends = false;
    int rank = 0, lane = 0;
    Picoseconds start = 0, end = 0;
    bool has_span = true;
  };
  /// Ends of messages without their counterparts. Different phases of a run may reuse ids, so the
  /// first start of an id is matched with its first end, and so on.
  struct UnmatchedEnds {
    std::vector<MessageEnd> waiting;
    std::size_t matched = 0;  ///< the first `matched` elements are matched
  };
  void add_end(const MessageEnd& end);
  StepWindow& window_of(const TimelineSpan& span);

  RunInfo run_;
  std::vector<std::unique_ptr<RankTimeline>> ranks_;
  std::unordered_map<int, RankTimeline*> rank_index_;
  std::unordered_map<std::uint64_t, Lane*> lane_index_;  ///< by rank and tid
  /// The rank and lane of the last span; the next span is likely to be on the same lane.
  struct {
    RankTimeline* rank = nullptr;
    Lane* lane = nullptr;
  } last_;
  std::unordered_map<std::string, NameId, Hash, std::equal_to<>> ids_;
  std::vector<const std::string*> names_;
  std::vector<StepWindow> steps_;
  std::unordered_map<int, std::size_t> step_index_;  ///< positions in steps_
  std::size_t last_step_ = 0;                        ///< position of the last span's step
  GrowingArray<TimelineMessage> messages_;
  std::vector<TimelineMessage> pending_messages_;
  std::unordered_map<std::uint64_t, UnmatchedEnds> unmatched_;
  std::vector<MessageEnd> flows_;  ///< not attached to spans yet
  /// Waits for messages that they do not name. Each settle() tries to infer the messages, and the
  /// next one tries again.
  struct UnnamedWait {
    int rank = 0;
    int lane = 0;
    TimelineSpan span;
    bool tried = false;
  };
  std::vector<UnnamedWait> unnamed_;
  std::map<int, Prediction> predictions_;
  Picoseconds longest_message_ = 0;
  std::int64_t span_count_ = 0;
  int ranks_ended_ = 0;
  Picoseconds start_ = 0, end_ = 0;
  std::vector<FreshSpan>* fresh_ = nullptr;
};

}  // namespace lockstep
