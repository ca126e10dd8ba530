#include "core/trace/recorder.h"

#include <algorithm>
#include <utility>

namespace lockstep {

const char* name_of(Category category) {
  constexpr const char* names[category_count] = {
      "forward",       "backward", "backward_input", "backward_weight", "recompute", "optimizer",
      "communication", "wait",     "step",           "kernel"};
  return names[static_cast<std::size_t>(category)];
}

char letter_of(Category category) {
  constexpr char letters[] = "FBIWR";
  return category <= Category::recompute ? letters[static_cast<std::size_t>(category)] : '\0';
}

int Recorder::add_lane(const std::string& name) {
  std::lock_guard lock{mutex_};
  if (const auto found = std::find(lanes_.begin(), lanes_.end(), name); found != lanes_.end())
    return static_cast<int>(found - lanes_.begin());
  lanes_.push_back(name);
  return static_cast<int>(lanes_.size()) - 1;
}

std::vector<std::string> Recorder::lanes() const {
  std::lock_guard lock{mutex_};
  return lanes_;
}

const char* Recorder::keep(const std::string& text) {
  std::lock_guard lock{mutex_};
  return kept_.insert(text).first->c_str();
}

void Recorder::push(const TraceEvent& event) {
  std::lock_guard lock{mutex_};
  events_.push_back(event);
  events_.back().step = event.span.step >= 0 ? event.span.step : step();
}

void Recorder::span(int lane, const Span& span, Picoseconds start, Picoseconds end) {
  if (!on_) return;
  span_count_.fetch_add(1, std::memory_order_relaxed);
  push({.kind = TraceEvent::Kind::span, .lane = lane, .span = span, .start = start, .end = end});
}

void Recorder::flow_start(int lane, std::uint64_t id, Picoseconds at) {
  if (!on_) return;
  push({.kind = TraceEvent::Kind::flow_start, .lane = lane, .start = at, .end = at, .flow = id});
}

void Recorder::flow_end(int lane, std::uint64_t id, Picoseconds at) {
  if (!on_) return;
  push({.kind = TraceEvent::Kind::flow_end, .lane = lane, .start = at, .end = at, .flow = id});
}

void Recorder::memory(const MemoryUse& use, Picoseconds at) {
  if (!on_) return;
  push({.kind = TraceEvent::Kind::memory, .start = at, .end = at, .bytes = use.bytes});
}

void Recorder::loss(double value, Picoseconds at) {
  if (!on_) return;
  push({.kind = TraceEvent::Kind::loss, .start = at, .end = at, .value = value});
}

void Recorder::metadata(const char* name, std::string args_json) {
  if (!on_) return;
  push({.kind = TraceEvent::Kind::metadata,
        .span = {.name = name},
        .text = std::make_shared<const std::string>(std::move(args_json))});
}

std::vector<TraceEvent> Recorder::drain() {
  std::lock_guard lock{mutex_};
  return std::exchange(events_, {});
}

}  // namespace lockstep
