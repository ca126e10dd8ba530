#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "viz/read/timeline/growing_array.h"
#include "viz/read/timeline/timeline_span.h"

namespace lockstep {

/// The descriptions of the spans in a band of a lane: all that a span says, except its times, step,
/// sequence number and the low half of its message's id. A training run repeats its spans, so
/// millions of them share a few hundred descriptions, and each span stores only an index.
class SpanDescriptions {
 public:
  using Id = std::uint32_t;

  SpanDescriptions() = default;
  SpanDescriptions(const SpanDescriptions&) = delete;
  SpanDescriptions& operator=(const SpanDescriptions&) = delete;

  /// Returns the id of the span's description, which is added if it is new. Fast if the spans come
  /// in the same order as before.
  Id find(const TimelineSpan& span);
  /// Returns a description as a span whose other fields have their defaults.
  const TimelineSpan& operator[](Id id) const { return all_[id]; }
  std::size_t size() const { return all_.size(); }

  /// Calls `change(span)` for each description. Spans keep their ids.
  template <class Change>
  void change_all(Change change) {
    for (TimelineSpan& description : all_) change(description);
    index_all();
  }

 private:
  /// For the index, which holds ids, but is searched for spans.
  struct Hash {
    using is_transparent = void;
    const GrowingArray<TimelineSpan>* all;
    std::size_t operator()(const TimelineSpan& span) const;
    std::size_t operator()(Id id) const { return (*this)((*all)[id]); }
  };
  struct Same {
    using is_transparent = void;
    const GrowingArray<TimelineSpan>* all;
    bool operator()(const TimelineSpan& span, Id id) const;
    bool operator()(Id id, const TimelineSpan& span) const { return (*this)(span, id); }
    bool operator()(Id a, Id b) const { return a == b || (*this)((*all)[a], b); }
  };
  void index_all();

  GrowingArray<TimelineSpan> all_;
  GrowingArray<Id> next_;  ///< by id: the description that last followed this one
  Id last_ = 0;            ///< the description found last
  std::unordered_set<Id, Hash, Same> index_{0, Hash{&all_}, Same{&all_}};
};

}  // namespace lockstep
