#include "core/trace/timeline.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

/// Orders spans by start. If starts are equal, the longer span comes first, so that enclosing spans
/// precede the spans they contain.
bool before(const TimelineSpan& a, const TimelineSpan& b) {
  return a.start != b.start ? a.start < b.start : a.end > b.end;
}

bool sent_before(const Message& a, const Message& b) {
  return a.sent < b.sent;
}

}  // namespace

Band band_of(Category category) {
  switch (category) {
    case Category::step:
      return Band::step;
    case Category::kernel:
      return Band::kernel;
    default:
      return Band::action;
  }
}

void Lane::append(const TimelineSpan& span) {
  bands_[static_cast<std::size_t>(band_of(span.category))].pending.push_back(span);
  if (!open_.empty()) withdraw(span);
}

void Lane::withdraw(const TimelineSpan& span) {
  std::erase_if(open_, [&](const AnnouncedSpan& open) {
    return open.span.start == span.start && open.span.name == span.name;
  });
}

void Lane::announce(const TimelineSpan& span) {
  for (AnnouncedSpan& open : open_) {
    if (open.span.start == span.start && open.span.name == span.name) {
      open.span.end = std::max(open.span.end, span.end);
      return;
    }
  }
  open_.push_back({span});
}

void Lane::settle() {
  for (BandRows& band : bands_) settle(band);
}

void Lane::settle(BandRows& band) {
  auto& [rows, pending] = band;
  if (pending.empty()) return;
  Picoseconds earliest = pending.front().start;
  for (const TimelineSpan& span : pending) earliest = std::min(earliest, span.start);
  // Re-insert the spans that may contain, be contained in or follow a new span; spans that ended
  // before the earliest new start stay.
  for (SpanRow& row : rows) {
    auto keep = std::partition_point(row.begin(), row.end(),
                                     [&](const TimelineSpan& span) { return span.end < earliest; });
    pending.insert(pending.end(), keep, row.end());
    row.erase(keep, row.end());
  }
  if (!std::is_sorted(pending.begin(), pending.end(), before)) {
    std::stable_sort(pending.begin(), pending.end(), before);
  }
  for (const TimelineSpan& span : pending) {
    auto free = std::find_if(rows.begin(), rows.end(), [&](const SpanRow& row) {
      return row.empty() || row.back().end <= span.start;
    });
    if (free == rows.end()) free = rows.emplace(rows.end());
    free->push_back(span);
  }
  pending.clear();
}

const Lane* RankTimeline::compute() const {
  return !lanes.empty() && lanes.front()->is_compute() ? lanes.front().get() : nullptr;
}

Timeline::Timeline() {
  intern("");
}

void Timeline::clear() {
  Timeline fresh;
  fresh.fresh_ = fresh_;
  *this = std::move(fresh);  // unlike the containers' clear(), frees their memory
}

NameId Timeline::intern(std::string_view name) {
  if (auto found = ids_.find(name); found != ids_.end()) return found->second;
  auto [entry, fresh] = ids_.emplace(std::string{name}, static_cast<NameId>(names_.size()));
  names_.push_back(&entry->first);
  return entry->second;
}

const RankTimeline* Timeline::find_rank(int rank) const {
  auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank,
                             [](const auto& entry, int id) { return entry->rank < id; });
  return at != ranks_.end() && (*at)->rank == rank ? at->get() : nullptr;
}

RankTimeline& Timeline::rank(int rank) {
  auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank,
                             [](const auto& entry, int id) { return entry->rank < id; });
  if (at == ranks_.end() || (*at)->rank != rank) {
    at = ranks_.insert(at, std::make_unique<RankTimeline>());
    (*at)->rank = rank;
    (*at)->name = "rank " + std::to_string(rank);
  }
  return **at;
}

Lane& Timeline::lane(int rank_id, int tid) {
  auto& lanes = rank(rank_id).lanes;
  auto at = std::lower_bound(lanes.begin(), lanes.end(), tid,
                             [](const auto& entry, int id) { return entry->tid() < id; });
  if (at == lanes.end() || (*at)->tid() != tid) {
    at = lanes.insert(
        at, std::make_unique<Lane>(tid, tid == 0 ? "compute" : "lane " + std::to_string(tid)));
  }
  return **at;
}

const StepWindow* Timeline::find_step(int step) const {
  auto at = std::lower_bound(steps_.begin(), steps_.end(), step,
                             [](const StepWindow& entry, int id) { return entry.step < id; });
  return at != steps_.end() && at->step == step ? &*at : nullptr;
}

bool Timeline::step_complete(const StepWindow& step) const {
  return step.ranks_done >= std::max(run_.ranks, static_cast<int>(ranks_.size())) || ended();
}

bool Timeline::ended() const {
  return !ranks_.empty() && static_cast<int>(ranks_.size()) >= run_.ranks &&
         std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->ended; });
}

void Timeline::add(int rank_id, int tid, const TimelineSpan& span) {
  lane(rank_id, tid).append(span);
  ++rank(rank_id).spans;
  if (fresh_) fresh_->push_back({rank_id, span.end});
  start_ = span_count_ == 0 ? span.start : std::min(start_, span.start);
  end_ = span_count_ == 0 ? span.end : std::max(end_, span.end);
  ++span_count_;
  if (span.step < 0) return;
  auto at = steps_.end();
  if (steps_.empty() || steps_.back().step < span.step) {
    at = steps_.insert(at, {span.step, span.start, span.end, 0});
  } else {
    at = std::lower_bound(steps_.begin(), steps_.end(), span.step,
                          [](const StepWindow& entry, int id) { return entry.step < id; });
    if (at->step != span.step) at = steps_.insert(at, {span.step, span.start, span.end, 0});
  }
  at->start = std::min(at->start, span.start);
  at->end = std::max(at->end, span.end);
  if (span.category == Category::step && tid == 0) ++at->ranks_done;
}

void Timeline::announce(int rank, int tid, const TimelineSpan& span) {
  lane(rank, tid).announce(span);
  if (span_count_ > 0) end_ = std::max(end_, span.end);
}

void Timeline::withdraw(int rank, int tid, const TimelineSpan& span) {
  lane(rank, tid).withdraw(span);
}

void Timeline::meet(std::uint64_t id, FlowEnds& flow) {
  if (flow.starts.empty() || flow.ends.empty()) return;
  Message message = flow.starts.front();
  const Message& end = flow.ends.front();
  message.to_rank = end.to_rank;
  message.to_lane = end.to_lane;
  message.received = end.received;
  longest_message_ = std::max(longest_message_, message.received - message.sent);
  pending_messages_.push_back(message);
  flow.starts.pop_front();
  flow.ends.pop_front();
  if (flow.starts.empty() && flow.ends.empty()) flows_.erase(id);
}

void Timeline::flow_start(std::uint64_t id, int rank, int tid, Picoseconds at) {
  FlowEnds& flow = flows_[id];
  flow.starts.push_back({.id = id, .from_rank = rank, .from_lane = tid, .sent = at});
  meet(id, flow);
}

void Timeline::flow_end(std::uint64_t id, int rank, int tid, Picoseconds at) {
  FlowEnds& flow = flows_[id];
  flow.ends.push_back({.id = id, .to_rank = rank, .to_lane = tid, .received = at});
  meet(id, flow);
}

const Prediction& Timeline::prediction(int step) const {
  static const Prediction nothing;
  auto after =
      std::partition_point(predictions_.begin(), predictions_.end(),
                           [&](const Prediction& each) { return each.first_step <= step; });
  return after == predictions_.begin() ? nothing : *std::prev(after);
}

void Timeline::predict(Prediction prediction) {
  auto at = std::partition_point(
      predictions_.begin(), predictions_.end(),
      [&](const Prediction& each) { return each.first_step < prediction.first_step; });
  if (at != predictions_.end() && at->first_step == prediction.first_step) {
    *at = std::move(prediction);  // all ranks report the same prediction
  } else {
    predictions_.insert(at, std::move(prediction));
  }
}

void Timeline::settle() {
  for (auto& rank : ranks_) {
    for (auto& lane : rank->lanes) lane->settle();
  }
  if (pending_messages_.empty()) return;
  std::sort(pending_messages_.begin(), pending_messages_.end(), sent_before);
  const auto old = static_cast<std::ptrdiff_t>(messages_.size());
  messages_.insert(messages_.end(), pending_messages_.begin(), pending_messages_.end());
  std::inplace_merge(messages_.begin(), messages_.begin() + old, messages_.end(), sent_before);
  pending_messages_.clear();
}

}  // namespace lockstep
