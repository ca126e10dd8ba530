#include "core/replay/scenario.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/printable.h"

namespace lockstep {

namespace {

using Kind = RecordedOperation::Kind;

/// The time that something takes after a change, relative to the time before; 0 if it is free.
struct Pace {
  double time = 1;
  std::string words;  ///< "4 times as fast"
};

Pace pace_of(const std::string& text, const std::string& change) {
  if (text == "free") return {0, "free"};
  for (const bool faster : {true, false}) {
    const std::string word = faster ? "faster:" : "slower:";
    if (!text.starts_with(word)) continue;
    const auto factor = number_from<double>(std::string_view{text}.substr(word.size()));
    if (!factor || !(*factor > 0)) break;
    const double time = faster ? 1 / *factor : *factor;
    if (!(time > 0 && time <= most_slow)) break;
    return {time, fmt::format("{} times as {}", *factor, faster ? "fast" : "slow")};
  }
  throw UsageError(fmt::format(
      "--change {}: '{}' is not a pace; write free, faster:2 or slower:1.5 (above 0, and at "
      "most {} times as slow)",
      excerpt(change), excerpt(text), most_slow));
}

void stretch(Link& link, double time) {
  const auto scale = [&](double& latency, double& bandwidth) {
    latency *= time;
    bandwidth = time == 0 ? std::numeric_limits<double>::infinity() : bandwidth / time;
  };
  scale(link.latency_seconds, link.bandwidth);
  for (Link::Segment& segment : link.segments) scale(segment.latency_seconds, segment.bandwidth);
  for (Link::Protocol& protocol : link.protocols)
    scale(protocol.latency_seconds, protocol.bandwidth);
}

/// Does the same for shared links.
void stretch(SharedLinks& shared, bool within, double time) {
  if (within) {
    shared.port /= time;
    return;
  }
  if (shared.cards) shared.cards->bandwidth /= time;
  shared.uplink /= time;
}

void stretch_latency(Link& link, double time) {
  link.latency_seconds *= time;
  for (Link::Segment& segment : link.segments) segment.latency_seconds *= time;
  for (Link::Protocol& protocol : link.protocols) protocol.latency_seconds *= time;
}

std::optional<int> number_of(const std::string& text) {
  const auto number = number_from<int>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

constexpr std::pair<const char*, KernelKind> kinds[] = {{"products", KernelKind::product},
                                                        {"attention", KernelKind::attention},
                                                        {"memory", KernelKind::memory}};

}  // namespace

std::set<std::string> axes_of(const RunOperations& run) {
  std::set<std::string> axes;
  for (const auto& group : run.groups) axes.insert(group.name);
  for (const RecordedOperation& each : run.operations)
    if (each.kind == Kind::send) axes.insert(each.axis);
  return axes;
}

bool Scenario::ComputeChange::selects(const RecordedOperation& operation) const {
  return (stage < 0 || operation.stage == stage) &&
         (!kind || (operation.kind == Kind::kernel && operation.cost.kind == *kind));
}

void Scenario::change(const std::string& text, const RunOperations& run) {
  const auto equals = text.find('=');
  const std::string what = text.substr(0, equals);
  if (equals == std::string::npos)
    throw UsageError(
        fmt::format("--change {}: wants WHAT=PACE, such as between=faster:4", excerpt(text)));
  const Pace pace = pace_of(text.substr(equals + 1), text);
  Cluster& cluster = modelled_.cluster;
  const auto colon = what.find(':');
  const std::string kind = what.substr(0, colon);
  const auto number = colon == std::string::npos ? std::nullopt : number_of(what.substr(colon + 1));
  std::string name = what;

  if (what == "within" || what == "between" || what == "latency") {
    if (cluster.shared && what != "latency") stretch(*cluster.shared, what == "within", pace.time);
    // Includes the links of axes that earlier changes have modified.
    std::vector<Cluster*> all{&cluster};
    for (auto& [axis, links] : links_) all.push_back(&links);
    for (Cluster* each : all)
      for (Link* link : {&each->within, &each->between})
        if (what == "latency")
          stretch_latency(*link, pace.time);
        else if (link == (what == "within" ? &each->within : &each->between))
          stretch(*link, pace.time);
    for (Cluster* each : all) {
      if (!each->in_switch || what == "between") continue;  // the switch is within a node
      what == "latency" ? stretch_latency(*each->in_switch, pace.time)
                        : stretch(*each->in_switch, pace.time);
    }
  } else if (kind == "rank" && number) {
    if (*number >= static_cast<int>(run.ranks.size()))
      throw UsageError(
          fmt::format("--change {}: there are ranks 0 to {}", excerpt(text), run.ranks.size() - 1));
    modelled_.slow[*number] = modelled_.slowness(*number) * pace.time;
    name = fmt::format("rank {}", *number);
  } else if (kind == "stage" && number) {
    const auto has = [&](const RecordedOperation& each) { return each.stage == *number; };
    if (std::ranges::none_of(run.operations, has))
      throw UsageError(fmt::format("--change {}: the run has no stage {}", excerpt(text), *number));
    compute_.push_back({.stage = *number, .kind = {}, .time = pace.time});
    name = fmt::format("stage {}", *number);
  } else if (const auto found = std::ranges::find(
                 kinds, what, [](const auto& each) { return std::string{each.first}; });
             found != std::end(kinds)) {
    if (modelled_.times.any())
      throw UsageError(
          fmt::format("--change {}: the run has fixed times of actions (--time), in "
                      "which kernels do not count",
                      excerpt(text)));
    compute_.push_back({.kind = found->second, .time = pace.time});
  } else if (const auto axes = axes_of(run); axes.contains(what)) {
    Cluster& links = links_.try_emplace(what, cluster).first->second;
    stretch(links.within, pace.time);
    stretch(links.between, pace.time);
    loads_.try_emplace(what, 1).first->second *= pace.time;
    if (links.in_switch) stretch(*links.in_switch, pace.time);
  } else {
    throw UsageError(fmt::format(
        "--change {}: can't change '{}'; choose within, between, latency, rank:R, stage:S, "
        "products, attention, memory{}{}",
        excerpt(text), excerpt(what), axes.empty() ? "" : ", ", fmt::join(axes, ", ")));
  }
  words_.push_back(name + " " + pace.words);
}

Picoseconds Scenario::duration(const RecordedOperation& operation, const Clock& clock) const {
  double time = 1, work = 1;
  for (const ComputeChange& each : compute_)
    if (each.selects(operation)) (each.kind ? work : time) *= each.time;
  if (operation.kind == Kind::kernel) {
    Cost cost = operation.cost;
    cost.flops *= work;
    cost.bytes *= work;
    return clock.cost(cost, time);
  }
  if (operation.kind != Kind::end) return 0;
  return clock.fixed(operation.category, time).value_or(0);
}

const Cluster& Scenario::links(const std::string& axis) const {
  const auto found = links_.find(axis);
  return found != links_.end() ? found->second : modelled_.cluster;
}

double Scenario::load(const std::string& axis) const {
  const auto found = loads_.find(axis);
  return found != loads_.end() ? found->second : 1;
}

}  // namespace lockstep
