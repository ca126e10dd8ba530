#include "viz/read/kineto/actions.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "viz/read/kineto/autograd_passes.h"

namespace lockstep::kineto {
namespace {

/// Returns the pass that a layer's part belongs to: "attn(F)", "mlp(B)", "mlp(W)".
std::optional<Category> part_category(std::string_view name) {
  if (name.size() < 4 || !name.ends_with(')') || name[name.size() - 3] != '(') return {};
  switch (name[name.size() - 2]) {
    case 'F':
      return Category::forward;
    case 'B':
      return Category::backward;
    case 'W':
      return Category::backward_weight;
    default:
      return {};
  }
}

void sort_by_start(std::vector<Action>& actions) {
  std::ranges::stable_sort(actions, {}, [](const Action& each) { return each.time.start; });
}

}  // namespace

RankActions find_actions(const Trace& trace, const RankCalls& calls) {
  std::vector<Action> labelled, numbers, parts;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.kind != Event::Kind::annotation) continue;
    const std::string& name = trace.name(event);
    const Interval time{event.start, event.end};
    const int step = calls.step_of[i];
    for (const PipelineLabel& label : pipeline_labels(name))
      if (label.kind == PipelineLabel::Kind::action)
        labelled.push_back({label.category, label.stage, label.microbatch, step, 0, time});
    if (const auto microbatch = numbered(name, "Forward "))
      numbers.push_back({Category::forward, -1, *microbatch, step, 0, time});
    if (const auto microbatch = numbered(name, "Backward "))
      numbers.push_back({Category::backward, -1, *microbatch, step, 0, time});
    if (const auto category = part_category(name))
      parts.push_back({*category, -1, -1, step, event.name, time});
  }
  RankActions found;
  if (!labelled.empty()) {
    found = {ActionsFrom::labels, std::move(labelled)};
  } else if (!numbers.empty()) {
    found = {ActionsFrom::annotations, std::move(numbers)};
  } else if (!parts.empty()) {
    found = {ActionsFrom::parts, std::move(parts)};
  } else if (!trace.links.empty()) {
    found = {ActionsFrom::flows, autograd_passes(trace, calls)};
  }
  sort_by_start(found.actions);
  return found;
}

void place_on_gpu(const Trace& trace, RankActions& actions) {
  const auto launches = launches_of(trace);
  std::vector<std::optional<Interval>> places(actions.actions.size());
  for (const Event& event : trace.events) {
    if (event.kind != Event::Kind::kernel || is_communication_kernel(trace.name(event))) continue;
    const auto launch = launches.find(event.correlation);
    if (launch == launches.end()) continue;
    const Picoseconds launched = launch->second.at;
    auto after = std::ranges::upper_bound(actions.actions, launched, {},
                                          [](const Action& each) { return each.time.start; });
    // The two actions of OVERLAP_F_B have the same time, and share its kernels.
    for (int joined = 0; joined < 2 && after != actions.actions.begin(); ++joined) {
      --after;
      if (after->time.end <= launched) break;
      auto& place = places[static_cast<std::size_t>(after - actions.actions.begin())];
      if (!place) place = {event.start, event.end};
      place->start = std::min(place->start, event.start);
      place->end = std::max(place->end, event.end);
    }
  }
  std::vector<Action> placed;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) continue;
    placed.push_back(actions.actions[i]);
    placed.back().time = *places[i];
  }
  sort_by_start(placed);
  actions.actions = std::move(placed);
}

void start_after_messages(RankActions& actions, const RankCalls& calls) {
  std::map<std::tuple<int, int, int, bool>, Picoseconds> arrived;
  for (const Call& call : calls.calls)
    if (call.label && call.kind == CallKind::receive) {
      const bool forward = call.label->category == Category::forward;
      Picoseconds& end = arrived[{call.step, call.label->stage, call.label->microbatch, forward}];
      end = std::max(end, call.time.end);
    }
  for (Action& action : actions.actions) {
    if (action.category == Category::backward_weight) continue;
    const bool forward = action.category == Category::forward;
    const auto end = arrived.find({action.step, action.stage, action.microbatch, forward});
    if (end != arrived.end() && end->second < action.time.end)
      action.time.start = std::max(action.time.start, end->second);
  }
}

}  // namespace lockstep::kineto
