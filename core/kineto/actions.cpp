#include "core/kineto/actions.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace lockstep::kineto {
namespace {

/// Returns the number in "Forward 3" after `word`.
std::optional<int> numbered(std::string_view name, std::string_view word) {
  if (!name.starts_with(word)) return {};
  name.remove_prefix(word.size());
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool all = error == std::errc{} && end == name.data() + name.size() && number >= 0;
  return all ? std::optional{number} : std::nullopt;
}

/// Returns what a part of a layer does: "attn(F)", "mlp(B)", "mlp(W)".
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

bool before(const Action& a, const Action& b) {
  return a.time.start < b.time.start;
}

/// The operators of a host thread that are in no other operator, to find the one around a time.
class Outermost {
 public:
  explicit Outermost(const Trace& trace) : by_track_(trace.tracks.size()) {
    for (const Event& event : trace.events) {
      if (event.kind != Event::Kind::op) continue;
      std::vector<Interval>& all = by_track_[event.track];
      if (all.empty() || event.start >= all.back().end) all.push_back({event.start, event.end});
    }
  }
  Interval around(std::uint16_t track, Picoseconds at) const {
    const auto& all = by_track_[track];
    const auto after = std::ranges::upper_bound(all, at, {}, &Interval::start);
    if (after != all.begin() && std::prev(after)->end >= at) return *std::prev(after);
    return {at, at};
  }

 private:
  std::vector<std::vector<Interval>> by_track_;
};

/// Groups the flows of autograd into passes.
class Passes {
 public:
  Passes(const Trace& trace, const RankCalls& calls) : trace_(trace), calls_(calls) {}

  std::vector<Action> find() {
    struct Point {
      Picoseconds at = 0;
      int kind = 0;  // 0: a message, 1: forward, 2: backward
      std::size_t flow = 0;
    };
    std::vector<Point> points;
    for (std::size_t i = 0; i < trace_.passes.size(); ++i) {
      points.push_back({trace_.passes[i].forward, 1, i});
      points.push_back({trace_.passes[i].backward, 2, i});
    }
    for (const Event& event : trace_.events) {
      const std::string& name = trace_.name(event.name);
      const bool message = name == "c10d::send" || name == "c10d::recv_" ||
                           name.starts_with("nccl:send") || name.starts_with("nccl:recv") ||
                           name.starts_with("nccl:coalesced");
      if (message) points.push_back({event.start, 0, 0});
    }
    std::ranges::stable_sort(points, {}, &Point::at);
    std::vector<int> forward_run(trace_.passes.size()), backward_run(trace_.passes.size());
    int run = 0, last = 0;
    for (const Point& point : points) {
      if (point.kind != last) ++run;
      last = point.kind;
      if (point.kind == 1) forward_run[point.flow] = run;
      if (point.kind == 2) backward_run[point.flow] = run;
    }
    const Outermost operators{trace_};
    std::map<std::pair<int, int>, std::pair<Interval, Interval>> found;
    for (std::size_t i = 0; i < trace_.passes.size(); ++i) {
      const ForwardBackward& flow = trace_.passes[i];
      const Interval forward = operators.around(flow.forward_track, flow.forward);
      const Interval backward = operators.around(flow.backward_track, flow.backward);
      const auto [at, fresh] =
          found.try_emplace({forward_run[i], backward_run[i]}, forward, backward);
      if (fresh) continue;
      for (const auto& [to, more] :
           {std::pair{&at->second.first, forward}, std::pair{&at->second.second, backward}}) {
        to->start = std::min(to->start, more.start);
        to->end = std::max(to->end, more.end);
      }
    }
    std::vector<Action> actions;
    std::map<int, int> counts;  // microbatches by step
    for (const auto& [runs, times] : found) {
      const int step = step_at(times.first.start);
      const int microbatch = counts[step]++;
      actions.push_back({Category::forward, -1, microbatch, step, 0, times.first});
      actions.push_back({Category::backward, -1, microbatch, step, 0, times.second});
    }
    return actions;
  }

 private:
  int step_at(Picoseconds time) const {
    for (const Step& step : calls_.steps)
      if (step.time.start <= time && time < step.time.end) return step.step;
    return -1;
  }

  const Trace& trace_;
  const RankCalls& calls_;
};

}  // namespace

RankActions find_actions(const Trace& trace, const RankCalls& calls) {
  RankActions labelled, numbers, parts;
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    const Event& event = trace.events[i];
    if (event.kind != Event::Kind::annotation) continue;
    const std::string& name = trace.name(event.name);
    const Interval time{event.start, event.end};
    const int step = calls.step_of[i];
    for (const PipelineLabel& label : pipeline_labels(name))
      if (label.kind == PipelineLabel::Kind::action)
        labelled.actions.push_back({label.category, label.stage, label.microbatch, step, 0, time});
    if (const auto forward = numbered(name, "Forward "))
      numbers.actions.push_back({Category::forward, -1, *forward, step, 0, time});
    if (const auto backward = numbered(name, "Backward "))
      numbers.actions.push_back({Category::backward, -1, *backward, step, 0, time});
    if (const auto category = part_category(name))
      parts.actions.push_back({*category, -1, -1, step, event.name, time});
  }
  RankActions found;
  if (!labelled.actions.empty()) {
    found = {ActionsFrom::labels, std::move(labelled.actions)};
  } else if (!numbers.actions.empty()) {
    found = {ActionsFrom::annotations, std::move(numbers.actions)};
  } else if (!parts.actions.empty()) {
    found = {ActionsFrom::parts, std::move(parts.actions)};
  } else if (!trace.passes.empty()) {
    found = {ActionsFrom::flows, Passes{trace, calls}.find()};
  }
  std::ranges::stable_sort(found.actions, before);
  return found;
}

bool infer_stages(std::vector<RankActions>& actions, const std::vector<RankCalls>& calls,
                  const std::vector<int>& numbers) {
  std::unordered_map<int, std::size_t> index;
  for (std::size_t i = 0; i < numbers.size(); ++i) index[numbers[i]] = i;
  // Each rank's previous stage: the source of what it receives before its first forward pass.
  std::vector<int> previous(numbers.size(), -1), next(numbers.size(), -1);
  bool any = false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto first = std::ranges::find(actions[i].actions, Category::forward, &Action::category);
    if (first == actions[i].actions.end() || first->stage >= 0) return false;
    for (const Call& call : calls[i].calls) {
      if (call.kind != CallKind::receive || call.step != first->step) continue;
      // "Forward 0" contains its own receive.
      if (call.time.start >= first->time.end || call.peer < 0) break;
      previous[i] = call.peer;
      any = true;
      break;
    }
  }
  if (!any) return false;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (previous[i] < 0) continue;
    const auto at = index.find(previous[i]);
    if (at == index.end() || next[at->second] >= 0) return false;
    next[at->second] = numbers[i];
  }
  std::vector<int> stages(numbers.size(), -1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    int stage = 0;
    for (std::size_t at = i; previous[at] >= 0; ++stage) {
      if (stage > static_cast<int>(numbers.size())) return false;  // a ring
      at = index.at(previous[at]);
    }
    stages[i] = stage;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (Action& action : actions[i].actions) action.stage = stages[i];
  return true;
}

void label_messages(const std::vector<RankActions>& actions, std::vector<RankCalls>& calls,
                    const std::vector<int>& numbers) {
  std::unordered_map<int, std::size_t> index;
  std::vector<std::set<int>> stages(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    index[numbers[i]] = i;
    for (const Action& action : actions[i].actions) stages[i].insert(action.stage);
  }
  // The unlabelled messages of each rank, by step, peer and direction, in order.
  using Key = std::tuple<int, int, bool>;
  std::vector<std::map<Key, std::vector<Call*>>> messages(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (Call& call : calls[i].calls) {
      const bool sends = call.kind == CallKind::send;
      if ((sends || call.kind == CallKind::receive) && call.peer >= 0 && !call.label)
        messages[i][{call.step, call.peer, sends}].push_back(&call);
    }
  const auto label = [](const std::vector<Call*>& all, const std::vector<PipelineLabel>& labels) {
    if (labels.empty() || all.size() % labels.size() != 0) return;
    const std::size_t tensors = all.size() / labels.size();
    for (std::size_t n = 0; n < all.size(); ++n) all[n]->label = labels[n / tensors];
  };
  for (std::size_t from = 0; from < numbers.size(); ++from)
    for (auto& [key, sent] : messages[from]) {
      const auto& [step, peer, sends] = key;
      const auto to = index.find(peer);
      if (!sends || to == index.end()) continue;
      // The results that the receiver's stages use, in the order in which they are computed.
      std::vector<PipelineLabel> sending, receiving;
      for (const Action& action : actions[from].actions) {
        if (action.step != step || action.stage < 0 || action.category == Category::backward_weight)
          continue;
        const bool forward = action.category == Category::forward;
        const int user = action.stage + (forward ? 1 : -1);
        if (!stages[to->second].contains(user)) continue;
        const Category category = forward ? Category::forward : Category::backward;
        sending.push_back({PipelineLabel::Kind::send, category, action.stage, action.microbatch});
        receiving.push_back({PipelineLabel::Kind::receive, category, user, action.microbatch});
      }
      label(sent, sending);
      const auto received = messages[to->second].find({step, numbers[from], false});
      if (received != messages[to->second].end()) label(received->second, receiving);
    }
}

void place_on_gpu(const Trace& trace, RankActions& actions) {
  std::unordered_map<std::int64_t, Picoseconds> launches;
  for (const Event& event : trace.events)
    if (event.kind == Event::Kind::runtime && event.correlation >= 0)
      launches.try_emplace(event.correlation, event.start);
  std::vector<std::optional<Interval>> places(actions.actions.size());
  for (const Event& event : trace.events) {
    if (event.kind != Event::Kind::kernel || is_communication_kernel(trace.name(event.name)))
      continue;
    const auto launch = launches.find(event.correlation);
    if (launch == launches.end()) continue;
    auto after = std::ranges::upper_bound(actions.actions, launch->second, {},
                                          [](const Action& each) { return each.time.start; });
    // OVERLAP_F_B is two actions at the same time.
    for (int joined = 0; joined < 2 && after != actions.actions.begin(); ++joined) {
      --after;
      if (after->time.end <= launch->second) break;
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
  std::ranges::stable_sort(placed, before);
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
