#include "viz/read/timeline/timeline.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "viz/read/timeline/older.h"

namespace lockstep {
namespace {

bool sent_before(const TimelineMessage& a, const TimelineMessage& b) {
  return a.sent < b.sent;
}

/// Sorts a vector by a key of its elements. Returns false if it was sorted already.
template <class Element, class Key>
bool sort_by(std::vector<Element>& elements, Key key) {
  if (std::ranges::is_sorted(elements, {}, key)) return false;
  std::ranges::stable_sort(elements, {}, key);
  return true;
}

int rank_of(const std::unique_ptr<RankTimeline>& rank) {
  return rank->rank;
}
int tid_of(const std::unique_ptr<Lane>& lane) {
  return lane->tid();
}

std::uint64_t lane_key(int rank, int tid) {
  return (std::uint64_t{static_cast<std::uint32_t>(rank)} << 32) | static_cast<std::uint32_t>(tid);
}

std::string default_name(int rank) {
  return "rank " + std::to_string(rank);
}
std::string default_lane_name(int tid) {
  return tid == 0 ? "compute" : "lane " + std::to_string(tid);
}

}  // namespace

std::int64_t MemorySample::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
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

std::optional<NameId> Timeline::find_name(std::string_view name) const {
  const auto found = ids_.find(name);
  return found == ids_.end() ? std::nullopt : std::optional{found->second};
}

NameId Timeline::intern(std::string_view name) {
  if (auto found = ids_.find(name); found != ids_.end()) return found->second;
  auto [entry, fresh] = ids_.emplace(std::string{name}, static_cast<NameId>(names_.size()));
  names_.push_back(&entry->first);
  return entry->second;
}

const RankTimeline* Timeline::find_rank(int rank) const {
  const auto found = rank_index_.find(rank);
  return found == rank_index_.end() ? nullptr : found->second;
}

RankTimeline& Timeline::rank(int rank) {
  if (last_.rank != nullptr && last_.rank->rank == rank) return *last_.rank;
  RankTimeline*& entry = rank_index_[rank];
  if (entry == nullptr) {
    entry = ranks_.emplace_back(std::make_unique<RankTimeline>()).get();
    entry->rank = rank;
    entry->name = default_name(rank);
  }
  last_ = {entry, nullptr};
  return *entry;
}

Lane& Timeline::lane(int rank_id, int tid) {
  RankTimeline& of = rank(rank_id);
  if (last_.lane != nullptr && last_.lane->tid() == tid) return *last_.lane;
  Lane*& entry = lane_index_[lane_key(rank_id, tid)];
  if (entry == nullptr) {
    entry = of.lanes.emplace_back(std::make_unique<Lane>(tid, default_lane_name(tid))).get();
  }
  last_.lane = entry;
  return *entry;
}

const StepWindow* Timeline::find_step(int step) const {
  const auto found = step_index_.find(step);
  return found == step_index_.end() ? nullptr : &steps_[found->second];
}

bool Timeline::step_complete(const StepWindow& step) const {
  return step.ranks_done >= std::max(run_.ranks, static_cast<int>(ranks_.size())) || ended();
}

bool Timeline::ended() const {
  const auto ranks = static_cast<int>(ranks_.size());
  return ranks > 0 && ranks >= run_.ranks && ranks_ended_ == ranks;
}

StepWindow& Timeline::window_of(const TimelineSpan& span) {
  if (last_step_ < steps_.size() && steps_[last_step_].step == span.step) return steps_[last_step_];
  const auto [at, fresh] = step_index_.try_emplace(span.step, steps_.size());
  if (fresh) steps_.push_back({span.step, span.start, span.end, 0});
  last_step_ = at->second;
  return steps_[last_step_];
}

void Timeline::add(int rank_id, int tid, const TimelineSpan& span) {
  lane(rank_id, tid).append(span);
  ++rank(rank_id).spans;
  if (fresh_) fresh_->push_back({rank_id, span.end});
  start_ = span_count_ == 0 ? span.start : std::min(start_, span.start);
  end_ = span_count_ == 0 ? span.end : std::max(end_, span.end);
  ++span_count_;
  if (span.role != MessageRole::none && span.category == Category::communication &&
      span.message != 0)
    add_end({span.message, span.sends(), rank_id, tid, span.start, span.end});
  if (span.role != MessageRole::none && span.category == Category::wait && span.message == 0)
    unnamed_.push_back({rank_id, tid, span});
  if (span.step < 0) return;
  StepWindow& window = window_of(span);
  window.start = std::min(window.start, span.start);
  window.end = std::max(window.end, span.end);
  if (span.category == Category::step && tid == 0) ++window.ranks_done;
}

void Timeline::announce(int rank, int tid, const TimelineSpan& span) {
  lane(rank, tid).announce(span);
  if (span_count_ > 0) end_ = std::max(end_, span.end);
}

void Timeline::withdraw(int rank, int tid, const TimelineSpan& span) {
  lane(rank, tid).withdraw(span);
}

void Timeline::sample_memory(int rank_id, const MemorySample& sample) {
  RankTimeline& of = rank(rank_id);
  of.memory_in_order &= of.memory.empty() || of.memory.back().at <= sample.at;
  of.memory.push_back(sample);
  if (!of.memory_peak || sample.total() > of.memory_peak->total()) of.memory_peak = sample;
  of.highest_total = std::max(of.highest_total, sample.total());
}

void Timeline::add_peak(int rank_id, const StatePeak& peak) {
  RankTimeline& of = rank(rank_id);
  if (!of.memory_states.has(peak.state)) return;
  of.state_peaks.push_back(peak);
  of.highest_total = std::max(of.highest_total, of.memory_states.total(peak.state));
}

void Timeline::end(int rank_id, std::int64_t spans_written) {
  RankTimeline& of = rank(rank_id);
  if (!std::exchange(of.ended, true)) ++ranks_ended_;
  of.spans_written = spans_written;
}

void Timeline::add_group(int rank_id, NameId name, const std::vector<int>& members) {
  rank(rank_id).groups[name].insert(members.begin(), members.end());
}

void Timeline::add_end(const MessageEnd& end) {
  UnmatchedEnds& of = unmatched_[end.id];
  if (of.waiting.empty() || of.waiting.front().sends == end.sends) {
    of.waiting.push_back(end);
    return;
  }
  const MessageEnd other = of.waiting[of.matched++];
  if (of.matched == of.waiting.size()) unmatched_.erase(end.id);
  const MessageEnd &from = end.sends ? end : other, &to = end.sends ? other : end;
  longest_message_ = std::max(longest_message_, std::abs(to.end - from.start));
  pending_messages_.push_back({.id = end.id,
                               .from_rank = from.rank,
                               .from_lane = from.lane,
                               .to_rank = to.rank,
                               .to_lane = to.lane,
                               .sent = from.start,
                               .left = from.end,
                               .arriving = to.start,
                               .received = to.end,
                               .has_receive = to.has_span});
}

void Timeline::flow_start(std::uint64_t id, int rank, int tid, Picoseconds at) {
  flows_.push_back({id, true, rank, tid, at, at});
}

void Timeline::flow_end(std::uint64_t id, int rank, int tid, Picoseconds at) {
  flows_.push_back({id, false, rank, tid, at, at});
}

const Prediction& Timeline::prediction(int step) const {
  static const Prediction nothing;
  const auto after = predictions_.upper_bound(step);
  return after == predictions_.begin() ? nothing : std::prev(after)->second;
}

void Timeline::predict(Prediction prediction) {
  const int first = prediction.first_step;
  predictions_.insert_or_assign(first, std::move(prediction));  // all ranks report the same one
}

void Timeline::settle() {
  sort_by(ranks_, rank_of);
  for (auto& rank : ranks_) {
    sort_by(rank->lanes, tid_of);
    if (!std::exchange(rank->memory_in_order, true))
      std::ranges::stable_sort(rank->memory, {}, &MemorySample::at);
    for (auto& lane : rank->lanes) lane->settle();
  }
  for (MessageEnd& end : std::exchange(flows_, {})) {
    const auto on = lane_index_.find(lane_key(end.rank, end.lane));
    const auto span = on != lane_index_.end()
                          ? on->second->name_message(end.id, end.sends, end.start)
                          : std::nullopt;
    end.has_span = span.has_value();
    if (span) std::tie(end.start, end.end) = std::pair{span->start, span->end};
    add_end(end);
  }
  std::erase_if(unnamed_, [&](UnnamedWait& wait) {
    const std::uint64_t id = infer_message(rank(wait.rank), wait.span);
    if (id != 0) lane(wait.rank, wait.lane).name_awaited(wait.span, id);
    return id != 0 || std::exchange(wait.tried, true);
  });
  if (sort_by(steps_, &StepWindow::step)) {
    for (std::size_t i = 0; i < steps_.size(); ++i) step_index_[steps_[i].step] = i;
  }
  if (pending_messages_.empty()) return;
  std::ranges::stable_sort(pending_messages_, sent_before);
  const auto old = std::ranges::upper_bound(messages_, pending_messages_.front(), sent_before);
  const auto from = old - messages_.begin();
  const auto middle = static_cast<std::ptrdiff_t>(messages_.size());
  messages_.insert(messages_.end(), pending_messages_.begin(), pending_messages_.end());
  std::inplace_merge(messages_.begin() + from, messages_.begin() + middle, messages_.end(),
                     sent_before);
  pending_messages_.clear();
}

void Timeline::absorb(Timeline&& other) {
  Picoseconds announced = std::numeric_limits<Picoseconds>::min();
  std::vector<NameId> names;
  for (const std::string* name : other.names_) names.push_back(intern(*name));
  for (const auto& theirs : other.ranks_) {
    RankTimeline& mine = rank(theirs->rank);
    if (theirs->name != default_name(theirs->rank)) mine.name = std::move(theirs->name);
    for (const auto& their_lane : theirs->lanes) {
      const int tid = their_lane->tid();
      Lane& my_lane = lane(theirs->rank, tid);
      if (their_lane->name() != default_lane_name(tid)) my_lane.set_name(their_lane->name());
      for (const AnnouncedSpan& open : their_lane->open())
        announced = std::max(announced, open.span.end);
      my_lane.absorb(std::move(*their_lane), names);
    }
    // The numbers of states are those of one file.
    const bool first_states = mine.memory_states.count() == 0;
    for (MemorySample& sample : theirs->memory) {
      if (!first_states) sample.state = -1;
      sample_memory(theirs->rank, sample);
    }
    if (first_states) {
      mine.memory_states = std::move(theirs->memory_states);
      mine.memory_states.rename(names);
      for (const StatePeak& peak : theirs->state_peaks) add_peak(theirs->rank, peak);
    }
    mine.losses.insert(mine.losses.end(), theirs->losses.begin(), theirs->losses.end());
    for (CounterSample& sample : theirs->counters) {
      sample.name = names[sample.name];
      for (auto& [name, value] : sample.series) name = names[name];
      mine.counters.push_back(std::move(sample));
    }
    if (!theirs->slices.empty()) mine.slices = std::move(theirs->slices);
    for (auto& [name, members] : theirs->groups) mine.groups[names[name]] = std::move(members);
    mine.spans += theirs->spans;
    if (theirs->clock_offset_ns != 0) mine.clock_offset_ns = theirs->clock_offset_ns;
    if (theirs->clock_uncertainty_ns != 0) mine.clock_uncertainty_ns = theirs->clock_uncertainty_ns;
    if (theirs->ended) end(theirs->rank, theirs->spans_written);
  }
  for (const StepWindow& theirs : other.steps_) {
    StepWindow& mine = window_of({.start = theirs.start, .end = theirs.end, .step = theirs.step});
    mine.start = std::min(mine.start, theirs.start);
    mine.end = std::max(mine.end, theirs.end);
    mine.ranks_done += theirs.ranks_done;
  }
  longest_message_ = std::max(longest_message_, other.longest_message_);
  pending_messages_.insert(pending_messages_.end(), other.messages_.begin(), other.messages_.end());
  pending_messages_.insert(pending_messages_.end(), other.pending_messages_.begin(),
                           other.pending_messages_.end());
  for (const auto& [id, ends] : other.unmatched_)
    for (std::size_t i = ends.matched; i < ends.waiting.size(); ++i) add_end(ends.waiting[i]);
  flows_.insert(flows_.end(), other.flows_.begin(), other.flows_.end());
  for (UnnamedWait& wait : other.unnamed_) {
    wait.span.name = names[wait.span.name];
    wait.span.group = names[wait.span.group];
    unnamed_.push_back(std::move(wait));
  }
  for (auto& [first, prediction] : other.predictions_) predict(std::move(prediction));
  if (!(other.run_ == RunInfo{})) run_ = std::move(other.run_);
  if (other.span_count_ > 0) {
    start_ = span_count_ == 0 ? other.start_ : std::min(start_, other.start_);
    end_ = span_count_ == 0 ? other.end_ : std::max(end_, other.end_);
    span_count_ += other.span_count_;
  }
  if (span_count_ > 0) end_ = std::max(end_, announced);
  other.clear();
}

}  // namespace lockstep
