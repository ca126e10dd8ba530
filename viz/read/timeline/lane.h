#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "viz/read/timeline/row_ends.h"
#include "viz/read/timeline/span_row.h"

namespace lockstep {

/// The nesting level of a span. Each level has its own rows (step ⊃ action ⊃ kernel), so a step
/// that arrives after the spans it contains does not displace them.
enum class Band : std::uint8_t { step, action, kernel };
constexpr int band_count = 3;
Band band_of(Category category);

/// A span that was announced as still running, because it is long or because the rank is stalled in
/// it.
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

  /// Adds a span; spans may come in any order. rows() includes the span only after settle().
  void append(const TimelineSpan& span);
  void announce(const TimelineSpan& span);
  /// Removes the announcement of a span that was never recorded.
  void withdraw(const TimelineSpan& span);
  /// The rows of a band in which a span is searched for that does not name its message. In an older
  /// trace of Lockstep, spans nest only a few deep, but a hostile one may have any number of rows.
  static constexpr std::size_t most_searched = 64;
  /// Finds the communication span that starts at `at` (or ends, if it does not send), and that
  /// names no message yet; lets it name this one. Returns nothing if there is no such span.
  std::optional<TimelineSpan> name_message(std::uint64_t id, bool sends, Picoseconds at);
  /// Lets a wait that names no message name this one.
  void name_awaited(const TimelineSpan& wait, std::uint64_t id);
  /// Moves the appended spans to their rows. Takes time linear in the number of spans since the
  /// earliest new start.
  void settle();
  /// Adds the spans and announcements of a lane that was read separately, with `names` for its
  /// NameIds.
  void absorb(Lane&& other, const std::vector<NameId>& names);

 private:
  struct BandRows {
    /// Of all rows, so that renaming them takes no time per span.
    std::shared_ptr<SpanDescriptions> descriptions = std::make_shared<SpanDescriptions>();
    std::vector<SpanRow> rows;
    RowEnds ends;
    std::size_t placed = 0;                    ///< spans in all rows
    Picoseconds last_start = 0, last_end = 0;  ///< of the last span placed, if there are rows
    std::vector<TimelineSpan> pending;

    void place(const TimelineSpan& span);
    void settle();
  };
  /// The fields that identify an announced span.
  struct OpenKey {
    Picoseconds start;
    NameId name;
    bool operator==(const OpenKey&) const = default;
  };
  struct OpenHash {
    std::size_t operator()(const OpenKey& key) const {
      return std::hash<std::uint64_t>{}(static_cast<std::uint64_t>(key.start) * 31 + key.name);
    }
  };

  int tid_ = 0;
  std::string name_;
  std::array<BandRows, band_count> bands_;
  std::vector<AnnouncedSpan> open_;
  std::unordered_map<OpenKey, std::size_t, OpenHash> open_index_;  ///< positions in open_
};

}  // namespace lockstep
