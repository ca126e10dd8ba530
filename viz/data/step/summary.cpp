#include "viz/data/step/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/printable.h"
#include "viz/data/step/words.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t shown_kernels = 12;
constexpr std::size_t shown_peers = 4;
constexpr std::size_t longest_kernel_name = 72;

/// Visits a rank's spans in all bands, lane by lane.
template <class Visit>
void visit_spans(const Timeline& timeline, const RankTimeline& rank, Visit visit) {
  const Interval whole{timeline.start(), timeline.end()};
  for (const auto& lane : rank.lanes)
    for (const Band band : {Band::action, Band::kernel})
      visit_band(*lane, band, whole, [&](const TimelineSpan& span) { visit(*lane, span); });
}

class Summariser {
 public:
  explicit Summariser(const Timeline& timeline)
      : timeline_(timeline),
        kernels_only_(!timeline.run().tool.empty() && timeline.run().device == "cuda") {}

  Summary summarise() {
    Summary summary{.run = timeline_.run()};
    double bubbles = 0;
    int with_bubble = 0;
    for (const StepWindow& step : timeline_.steps()) {
      summary.steps.push_back(step.step);
      if (const auto found = bubble(timeline_, step.step)) {
        bubbles += found->share();
        ++with_bubble;
      }
    }
    if (with_bubble > 0) summary.bubble = bubbles / with_bubble;
    for (const auto& rank : timeline_.ranks()) {
      summary.ranks.push_back(of_rank(*rank));
      summary.moved[rank->rank] = rank->clock_moved;
      summary.drift[rank->rank] = rank->clock_drift;
    }
    std::map<int, Picoseconds> waited;
    for (const RankSummary& rank : summary.ranks)
      for (const auto& [peer, time] : rank.waits)
        if (peer != rank.rank) waited[peer] = plus(waited[peer], time);
    summary.awaited = longest_awaited(waited);
    if (!summary.steps.empty())
      summary.straggler = straggler_of(timeline_, step_account(timeline_, summary.steps.back()));
    for (auto& [name, kernel] : kernels_) summary.kernels.push_back(std::move(kernel));
    for (auto& [key, each] : collectives_) summary.collectives.push_back(std::move(each));
    std::ranges::stable_sort(summary.kernels, std::greater{}, &KernelSummary::total);
    std::ranges::stable_sort(summary.collectives, std::greater{}, &CollectiveSummary::total);
    return summary;
  }

 private:
  RankSummary of_rank(const RankTimeline& rank) {
    RankSummary summary{.rank = rank.rank};
    std::vector<Interval> compute, communication, copies;
    std::map<int, std::vector<TimelineSpan>> kernels;  // by lane
    std::vector<Interval> pipeline;
    visit_spans(timeline_, rank, [&](const Lane& lane, const TimelineSpan& span) {
      const Interval time{span.start, span.end};
      if (span.category == Category::communication) {
        communication.push_back(time);
        add_collective(span);
      } else if (span.category == Category::copy) {
        copies.push_back(time);
      } else if (span.category == Category::kernel) {
        compute.push_back(time);
        kernels[lane.tid()].push_back(span);
      } else if (span.category == Category::wait) {
        if (lane.is_compute() && span.peer >= 0) {
          Picoseconds& sum = summary.waits[span.peer];
          sum = plus(sum, span.duration());
        } else if (!lane.is_compute()) {
          add_late(span);
        }
      }
    });
    for (auto& [lane, spans] : kernels) add_kernels(spans);
    const Interval whole{timeline_.start(), timeline_.end()};
    const Intervals computing =
        kernels_only_ ? merged(std::move(compute)) : computation(rank, whole);
    const Intervals communicating = merged(std::move(communication));
    const Intervals copying = merged(std::move(copies));
    std::vector<Interval> all{computing.begin(), computing.end()};
    all.insert(all.end(), communicating.begin(), communicating.end());
    const Intervals both = merged(all);
    all.insert(all.end(), copying.begin(), copying.end());
    const Intervals busy = merged(std::move(all));
    summary.compute = length(computing);
    summary.communication = length(communicating);
    summary.hidden = length(intersection(communicating, computing));
    summary.copy = length(difference(copying, both));
    if (!busy.empty()) summary.window = busy.back().end - busy.front().start;
    summary.idle = summary.window - length(busy);
    add_pipeline(rank, summary);
    return summary;
  }

  void add_pipeline(const RankTimeline& rank, RankSummary& summary) const {
    for (const StepWindow& step : timeline_.steps()) {
      const auto whole = bubble(timeline_, step.step);
      if (!whole) continue;
      summary.bubble = plus(summary.bubble,
                            whole->window - length(pipeline_actions(timeline_, rank, step.step)));
    }
    if (timeline_.steps().empty()) return;
    for (const TimelineSpan& span : actions_of(timeline_, rank, timeline_.steps().front().step))
      summary.actions += fmt::format("{}{}{}{}", summary.actions.empty() ? "" : ",", span.stage,
                                     letter_of(span.category), span.microbatch);
  }

  /// Counts the spans of a lane that are in no other.
  void add_kernels(std::vector<TimelineSpan>& spans) {
    std::ranges::stable_sort(spans, [](const TimelineSpan& a, const TimelineSpan& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    Picoseconds done = earliest_time;
    for (const TimelineSpan& span : spans) {
      if (!kernels_only_ && span.end <= done) continue;
      done = std::max(done, span.end);
      KernelSummary& kernel = kernels_[span.name];
      if (kernel.count++ == 0) kernel.name = timeline_.name(span.name);
      kernel.total = plus(kernel.total, span.duration());
    }
  }

  CollectiveSummary& collective_of(const TimelineSpan& span, const std::string& group) {
    const std::string& name = timeline_.name(span.name);
    CollectiveSummary& sum = collectives_[{group, name}];
    sum.group = group;
    sum.name = name;
    return sum;
  }
  std::string group_of(const TimelineSpan& span) const {
    const std::string& group = timeline_.name(span.group);
    return !group.empty() ? group : span.stage >= 0 ? "pp" : "";
  }

  void add_collective(const TimelineSpan& span) {
    CollectiveSummary& sum = collective_of(span, group_of(span));
    ++sum.count;
    sum.group_size = std::max(sum.group_size, span.group_size);
    sum.bytes = sum.bytes < 0 || span.bytes < 0 ? -1 : plus(sum.bytes, span.bytes);
    sum.total = plus(sum.total, span.duration());
  }
  /// A wait for late members has the labels of the collective that it is a part of.
  void add_late(const TimelineSpan& span) {
    CollectiveSummary& sum = collective_of(span, group_of(span));
    sum.late = plus(sum.late, span.duration());
  }

  const Timeline& timeline_;
  const bool kernels_only_;
  std::unordered_map<NameId, KernelSummary> kernels_;
  std::map<std::pair<std::string, std::string>, CollectiveSummary> collectives_;
};

std::string share_of(Picoseconds part, Picoseconds whole) {
  return whole > 0 ? percent_words(static_cast<double>(part) / static_cast<double>(whole)) : "-";
}

std::string waits_words(const std::map<int, Picoseconds>& waits) {
  std::vector<std::pair<int, Picoseconds>> sorted(waits.begin(), waits.end());
  std::ranges::stable_sort(sorted, std::greater{}, &std::pair<int, Picoseconds>::second);
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < shown_peers; ++i)
    text += fmt::format("{}{} for rank {}", i == 0 ? "" : ", ", duration_words(sorted[i].second),
                        sorted[i].first);
  if (sorted.size() > shown_peers) text += ", ...";
  return text.empty() ? "-" : text;
}

double seconds_of(Picoseconds time) {
  return seconds(time);
}

}  // namespace

std::optional<double> CollectiveSummary::bandwidth() const {
  const Picoseconds moving = total - late;
  if (bytes <= 0 || moving <= 0) return {};
  return static_cast<double>(bytes) / seconds(moving);
}

Summary summarise(const Timeline& timeline) {
  return Summariser{timeline}.summarise();
}

std::string summary_text(const Summary& summary) {
  const RunInfo& run = summary.run;
  std::string text =
      fmt::format("{}{}: {} rank{}{}, {} step{}\n", run.tool.empty() ? "" : "A trace of ",
                  run.tool.empty() ? (run.lesson.empty() ? "A trace" : run.lesson) : run.tool,
                  summary.ranks.size(), summary.ranks.size() == 1 ? "" : "s",
                  run.device.empty() ? "" : " on " + run.device, summary.steps.size(),
                  summary.steps.size() == 1 ? "" : "s");
  for (const std::string& note : run.notes) text += "  " + note + "\n";
  const bool pipeline = summary.bubble.has_value();
  text += fmt::format("\n{:>5} {:>9} {:>9} {:>13} {:>9} {:>8} {:>9}{}  {}\n", "rank", "window",
                      "compute", "communication", "exposed", "hidden", "idle",
                      pipeline ? fmt::format(" {:>9}", "bubble") : "", "waits");
  for (const RankSummary& rank : summary.ranks)
    text += fmt::format("{:>5} {:>9} {:>9} {:>13} {:>9} {:>8} {:>9}{}  {}\n", rank.rank,
                        duration_words(rank.window), duration_words(rank.compute),
                        duration_words(rank.communication), duration_words(rank.exposed()),
                        share_of(rank.hidden, rank.communication), duration_words(rank.idle),
                        pipeline ? fmt::format(" {:>9}", duration_words(rank.bubble)) : "",
                        waits_words(rank.waits));
  if (summary.awaited) text += awaited_words(*summary.awaited) + "\n";
  if (summary.straggler) text += "R" + straggler_words(*summary.straggler).substr(1) + ".\n";
  if (summary.bubble)
    text += fmt::format(
        "The bubble is {} of the time of the pipeline's actions (mean of the "
        "steps).\n",
        percent_words(*summary.bubble));
  if (!summary.collectives.empty()) {
    text += fmt::format("\n{:>7} {:>10} {:>10} {:>10} {:>12}  {}\n", "count", "time", "late",
                        "bytes", "per second", "collectives and messages");
    for (const CollectiveSummary& each : summary.collectives) {
      const auto bandwidth = each.bandwidth();
      text += fmt::format(
          "{:>7} {:>10} {:>10} {:>10} {:>12}  {}{}\n", each.count, duration_words(each.total),
          duration_words(each.late), each.bytes < 0 ? "-" : bytes_words(each.bytes),
          bandwidth ? bytes_words(*bandwidth) : "-", excerpt(each.name, longest_kernel_name),
          each.group.empty() ? ""
          : each.group_size > 0
              ? fmt::format(" in {} ({} ranks)", excerpt(each.group), each.group_size)
              : " in " + excerpt(each.group));
    }
  }
  if (summary.kernels.empty()) return text;
  Picoseconds all = 0;
  for (const KernelSummary& kernel : summary.kernels) all = plus(all, kernel.total);
  text += fmt::format("\n{:>7} {:>10} {:>10} {:>7}  {}\n", "count", "time", "mean", "share",
                      "kernels by time, on all ranks");
  for (std::size_t i = 0; i < summary.kernels.size() && i < shown_kernels; ++i) {
    const KernelSummary& kernel = summary.kernels[i];
    text += fmt::format(
        "{:>7} {:>10} {:>10} {:>7}  {}\n", kernel.count, duration_words(kernel.total),
        duration_words(static_cast<double>(kernel.total) / static_cast<double>(kernel.count)),
        share_of(kernel.total, all), excerpt(kernel.name, longest_kernel_name));
  }
  if (summary.kernels.size() > shown_kernels)
    text += fmt::format("{:>7} more\n", summary.kernels.size() - shown_kernels);
  return text;
}

std::string summary_json(const Summary& summary) {
  using Json = nlohmann::ordered_json;
  const RunInfo& run = summary.run;
  Json ranks = Json::array();
  for (const RankSummary& rank : summary.ranks) {
    Json waits = Json::object();
    for (const auto& [peer, time] : rank.waits) waits[std::to_string(peer)] = seconds_of(time);
    Json entry{{"rank", rank.rank},
               {"window", seconds_of(rank.window)},
               {"compute", seconds_of(rank.compute)},
               {"communication", seconds_of(rank.communication)},
               {"hidden", seconds_of(rank.hidden)},
               {"exposed", seconds_of(rank.exposed())},
               {"copy", seconds_of(rank.copy)},
               {"idle", seconds_of(rank.idle)},
               {"bubble", seconds_of(rank.bubble)},
               {"waits_by_peer", waits},
               {"actions", rank.actions}};
    if (!run.tool.empty()) {
      entry["clock_moved"] = seconds_of(summary.moved.at(rank.rank));
      entry["clock_drift"] = summary.drift.at(rank.rank);
    }
    ranks.push_back(std::move(entry));
  }
  Json kernels = Json::array(), collectives = Json::array();
  for (const KernelSummary& kernel : summary.kernels)
    kernels.push_back({{"name", printable(kernel.name)},
                       {"count", kernel.count},
                       {"total", seconds_of(kernel.total)}});
  for (const CollectiveSummary& each : summary.collectives) {
    Json entry{{"name", printable(each.name)},  {"group", printable(each.group)},
               {"group_size", each.group_size}, {"count", each.count},
               {"bytes", each.bytes},           {"total", seconds_of(each.total)},
               {"late", seconds_of(each.late)}};
    if (const auto bandwidth = each.bandwidth()) entry["bytes_per_second"] = *bandwidth;
    collectives.push_back(std::move(entry));
  }
  Json document{{"tool", run.tool.empty() ? "Lockstep" : run.tool},
                {"device", run.device},
                {"steps", summary.steps},
                {"ranks", ranks},
                {"kernels", kernels},
                {"collectives", collectives},
                {"notes", run.notes}};
  if (summary.bubble) document["bubble"] = *summary.bubble;
  if (summary.awaited)
    document["waited_longest_for"] = {{"rank", summary.awaited->rank},
                                      {"seconds", seconds_of(summary.awaited->time)}};
  if (summary.straggler)
    document["straggler"] = {{"step", summary.steps.back()},
                             {"rank", summary.straggler->rank},
                             {"compute", seconds_of(summary.straggler->compute)},
                             {"cost", seconds_of(summary.straggler->cost())}};
  if (run.clock_residual >= 0) document["clock_residual"] = seconds_of(run.clock_residual);
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::viz
