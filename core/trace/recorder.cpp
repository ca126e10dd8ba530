#include "core/trace/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "core/time/clock.h"
#include "core/trace/open_span.h"
#include "core/trace/recorder_lane.h"

namespace lockstep {

Recorder::Recorder(bool on) : on_(on), block_(std::make_unique<Block>()) {
  labels_.push_back({});
  add_lane("compute");
}

Recorder::~Recorder() = default;

int Recorder::add_lane(const std::string& name) {
  std::lock_guard lock{mutex_};
  if (const auto found = std::find(lanes_.begin(), lanes_.end(), name); found != lanes_.end())
    return static_cast<int>(found - lanes_.begin());
  const std::size_t id = lanes_.size();
  if (id >= Block::most) throw std::length_error(fmt::format("more than {} lanes", Block::most));
  block_->add(id, on_);
  if (id < first_lanes_.size())
    first_lanes_[id].store(&block_->lane(id), std::memory_order_release);
  lanes_.push_back(name);
  return static_cast<int>(id);
}

std::vector<std::string> Recorder::lanes() const {
  std::lock_guard lock{mutex_};
  return lanes_;
}

const char* Recorder::keep(const std::string& text) {
  std::lock_guard lock{mutex_};
  return kept_.insert(text).first->c_str();
}

inline Recorder::Lane& Recorder::lane(int id) const {
  if (const auto index = static_cast<std::size_t>(id); index < first_lanes_.size())
    if (Lane* found = first_lanes_[index].load(std::memory_order_acquire)) return *found;
  return block_->lane(static_cast<std::size_t>(id));
}

inline std::uint16_t Recorder::label(Lane& lane, const Span& span) {
  const Label& known = lane.label;
  if (known.group == span.group && known.algorithm == span.algorithm &&
      known.group_size == span.group_size) [[likely]]
    return lane.label_id;
  return find_label(lane, {span.group, span.algorithm, span.group_size});
}

// Each combination of a group and an algorithm has a label, so a rank has only a few labels. If
// there are too many labels for 16 bits, the remaining spans are recorded without one.
[[gnu::noinline]] std::uint16_t Recorder::find_label(Lane& lane, const Label& label) {
  std::lock_guard lock{mutex_};
  auto found = std::find(labels_.begin(), labels_.end(), label);
  if (found == labels_.end()) found = labels_.insert(found, label);
  const auto id = found - labels_.begin();
  lane.label = label;
  return lane.label_id = static_cast<std::uint16_t>(id <= 0xffff ? id : 0);
}

void Recorder::span(int lane_id, const Span& span, Picoseconds start, Picoseconds end) {
  Lane& on_lane = lane(lane_id);
  on_lane.queue.push(
      Record::of(span, span.step >= 0 ? span.step : step(), label(on_lane, span), start, end));
}

void Recorder::put_aside(TraceEvent event) {
  if (!on_) return;
  event.step = step();
  std::lock_guard lock{mutex_};
  aside_.push_back(std::move(event));
}

void Recorder::memory(const MemoryUse& use, Picoseconds at, int state) {
  put_aside({.kind = TraceEvent::Kind::memory,
             .start = at,
             .end = at,
             .bytes = use.bytes,
             .state = state});
}

void Recorder::loss(double value, Picoseconds at) {
  put_aside({.kind = TraceEvent::Kind::loss, .start = at, .end = at, .value = value});
}

void Recorder::counter(const char* name, int layer,
                       const std::vector<std::pair<std::string, std::int64_t>>& series,
                       Picoseconds at) {
  if (!on_) return;
  auto args = std::make_shared<std::string>();
  for (const auto& [key, value] : series) *args += fmt::format(",\"{}\":{}", key, value);
  put_aside({.kind = TraceEvent::Kind::counter,
             .span = {.name = name, .layer = layer},
             .start = at,
             .end = at,
             .text = std::move(args)});
}

void Recorder::metadata(const char* name, std::string args_json) {
  put_aside({.kind = TraceEvent::Kind::metadata,
             .span = {.name = name},
             .text = std::make_shared<const std::string>(std::move(args_json))});
}

std::int64_t Recorder::span_count() const {
  if (!on_) return 0;
  std::int64_t count = 0;
  block_->each([&](int, const Lane& each) { count += each.spans(); });
  return count;
}

void Recorder::fill(TraceEvent& event, const Record::Words& words) {
  event.kind = Record::kind(words) == Record::Kind::span ? TraceEvent::Kind::span
                                                         : TraceEvent::Kind::withdrawn;
  event.start = Record::start(words);
  event.end = Record::end(words);
  event.span = Record::span(words);
  event.step = event.span.step;
  const std::uint16_t id = Record::label(words);
  if (id >= labels_seen_.size()) {
    std::lock_guard lock{mutex_};
    labels_seen_ = labels_;
  }
  const Label& label = labels_seen_[id];
  event.span.group = label.group;
  event.span.algorithm = label.algorithm;
  event.span.group_size = label.group_size;
}

void Recorder::take(const Take& each) {
  if (!on_) return;
  std::lock_guard taking{taking_};
  std::vector<TraceEvent> aside;
  {
    std::lock_guard lock{mutex_};
    aside.swap(aside_);
  }
  for (const TraceEvent& event : aside) each(event);
  TraceEvent event;
  block_->each([&](int id, Lane& lane) {
    event.lane = id;
    lane.queue.take([&](const Record::Words& words) {
      fill(event, words);
      each(event);
    });
  });
}

std::vector<TraceEvent> Recorder::drain() {
  std::vector<TraceEvent> events;
  take([&](const TraceEvent& event) { events.push_back(event); });
  return events;
}

bool Recorder::on_wall_clock() const {
  const Clock* clock = clock_.load(std::memory_order_acquire);
  return clock != nullptr && !clock->is_modelled();
}

std::int64_t Recorder::opened(std::int64_t since, Picoseconds start) const {
  const Clock* clock = clock_.load(std::memory_order_acquire);
  return since >= 0 || clock == nullptr ? since : clock->start_nanoseconds() + start / 1000;
}

void Recorder::take_open(Picoseconds latest, bool all, const Take& each) {
  if (!on_) return;
  constexpr std::int64_t patience = 100'000'000;  // nanoseconds
  std::lock_guard taking{taking_};
  const std::int64_t now = steady_nanoseconds();
  TraceEvent event;
  block_->each([&](int id, Lane& lane) {
    for (int i = 0; i < RecordQueue::most_open; ++i) {
      RecordQueue::Open open;
      if (!lane.queue.look(i, open)) continue;
      Lane::Announcement& last = lane.announcements[static_cast<std::size_t>(i)];
      const std::int64_t since = opened(open.since, Record::start(open.words));
      if (last.version != open.version) last = {open.version, since + patience};
      if (now < last.next && !all) continue;
      if (!lane.queue.announce(i, open.version)) continue;
      last.next = now + std::max(now - since, patience);
      fill(event, open.words);
      event.kind = TraceEvent::Kind::open;
      event.lane = id;
      const Clock* clock = clock_.load(std::memory_order_acquire);
      event.end = std::max(event.start, on_wall_clock() ? clock->since_start(now) : latest);
      each(event);
    }
  });
}

void Recorder::end_abandoned(int lane, Picoseconds at) {
  RecordQueue& queue = this->lane(lane).queue;
  for (int which = RecordQueue::most_open - 1; which >= 0; --which) {
    if (!queue.is_open(which)) continue;
    Record::Words words = queue.close(which);
    Record::set_end(words, std::max(at, Record::start(words)));
    queue.push(words);
  }
}

OpenSpan::OpenSpan(Recorder& trace, int lane, const Span& span, Picoseconds start)
    : trace_(trace), lane_(lane) {
  Recorder::Lane& on_lane = trace.lane(lane);
  which_ = on_lane.queue.open(Record::of(span, span.step >= 0 ? span.step : trace.step(),
                                         trace.label(on_lane, span), start, start),
                              trace.on_wall_clock() ? -1 : steady_nanoseconds());
  if (which_ == unseen) unseen_ = Unseen{span, start};
}

// If an exception ends the span, the span stays open, to show where the rank was stuck: the last
// operations and, at the run's end, the trace contain it even if it was not announced before.
OpenSpan::~OpenSpan() {
  if (which_ < 0 || std::uncaught_exceptions() > 0) return;
  Recorder::Lane& lane = trace_.lane(lane_);
  auto [words, announced] = lane.queue.drop(which_);
  if (!announced) return;
  Record::withdraw(words);
  lane.push_other(words);
}

// Closes the span before recording it. A thread that has taken the span's record therefore no
// longer sees the span as open.
void OpenSpan::end(Picoseconds at) {
  if (which_ >= 0) {
    Recorder::Lane& lane = trace_.lane(lane_);
    Record::Words words = lane.queue.close(which_);
    Record::set_end(words, at);
    lane.queue.push(words);
  } else if (which_ == unseen) {
    trace_.span(lane_, unseen_->span, unseen_->start, at);
  }
  which_ = over;
}

}  // namespace lockstep
