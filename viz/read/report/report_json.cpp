#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "viz/read/report/memory_at_peak.h"
#include "viz/read/report/report.h"

namespace lockstep {

namespace {

using nlohmann::ordered_json;

ordered_json to_json(const PathLink& link) {
  static constexpr const char* kinds[] = {"action", "transfer", "latency", "other"};
  ordered_json object{{"kind", kinds[static_cast<std::size_t>(link.kind)]},
                      {"start", seconds(link.time.start)},
                      {"end", seconds(link.time.end)}};
  if (link.kind == PathLink::Kind::other) return object;
  object["rank"] = link.rank;
  if (link.to_rank >= 0) object["to_rank"] = link.to_rank;
  object["action"] = fmt::format("{}{}{}", link.stage, letter_of(link.category), link.microbatch);
  return object;
}

/// A phase's last step; `ranks` holds the results of all ranks.
ordered_json to_json(const PipelineStep& seen, const std::vector<RankResults>& ranks,
                     std::size_t phase) {
  const CriticalPath::Parts parts = seen.path.parts();
  ordered_json compute = ordered_json::object();
  for (const auto& [stage, time] : parts.compute) compute[std::to_string(stage)] = seconds(time);
  ordered_json links = ordered_json::array();
  for (const PathLink& link : seen.path.links) links.push_back(to_json(link));
  ordered_json document{{"step", seen.step},
                        {"critical_path",
                         {{"seconds", seconds(seen.path.window.end - seen.path.window.start)},
                          {"compute_seconds", compute},
                          {"stalled_seconds", seconds(parts.stalled)},
                          {"transfer_seconds", seconds(parts.transfer)},
                          {"latency_seconds", seconds(parts.latency)},
                          {"other_seconds", seconds(parts.other)},
                          {"links", links}}}};
  for (const PipelineStep::OfRank& rank : seen.ranks) {
    ordered_json object{{"rank", rank.rank}, {"microbatches_in_flight", rank.in_flight}};
    const Predicted& predicted =
        ranks.at(static_cast<std::size_t>(rank.rank)).phases[phase].predicted;
    if (predicted.in_flight) object["predicted_in_flight"] = *predicted.in_flight;
    document["ranks"].push_back(object);
  }
  return document;
}

/// Where a step's time goes. The parts of each rank add up to the step.
ordered_json to_json(const StepAccount& account) {
  ordered_json document{{"step", account.step}, {"seconds", seconds(account.length)}};
  for (const RankAccount& rank : account.ranks) {
    const StepSums& sums = rank.sums;
    ordered_json exposed = ordered_json::object();
    for (std::size_t axis = 0; axis < account.axes.size(); ++axis)
      exposed[account.axes[axis]] = {{"transfer", seconds(sums.axes[axis].transfer)},
                                     {"latency", seconds(sums.axes[axis].latency)},
                                     {"late_peer", seconds(sums.axes[axis].late_peer)},
                                     {"communication", seconds(rank.overlaps[axis].communication)},
                                     {"hidden", seconds(rank.overlaps[axis].hidden)}};
    document["ranks"].push_back({{"rank", rank.rank},
                                 {"compute", seconds(sums.compute)},
                                 {"optimizer", seconds(sums.optimizer)},
                                 {"exposed", exposed},
                                 {"bubble",
                                  {{"cool_down", seconds(sums.cool_down)},
                                   {"warm_up", seconds(sums.warm_up)},
                                   {"waiting", seconds(sums.waiting)}}},
                                 {"other", seconds(sums.other)},
                                 {"ended", seconds(sums.ended)}});
  }
  return document;
}

/// The stages' times and the better split, if there is one.
ordered_json to_json(const StageBalance& seen) {
  ordered_json stages{{"seconds_per_microbatch", ordered_json::array()},
                      {"slowest", seen.slowest},
                      {"mean_seconds_per_microbatch", seconds(seen.mean)},
                      {"simulated_step_seconds", nullptr},
                      {"part_seconds", nullptr},
                      {"proposal", nullptr}};
  for (const Picoseconds time : seen.times)
    stages["seconds_per_microbatch"].push_back(seconds(time));
  if (!seen.proposal) return stages;
  const SplitProposal& found = *seen.proposal;
  stages["simulated_step_seconds"] = seconds(found.step);
  if (found.block > 0)
    stages["part_seconds"] = {{"embedding", seconds(found.embedding)},
                              {"block", seconds(found.block)},
                              {"head", seconds(found.head)}};
  if (found.better != found.split)
    stages["proposal"] = {{"split", found.better},
                          {"simulated_step_seconds", seconds(found.better_step)}};
  return stages;
}

/// The contents of a rank's memory: the kinds of tensors in each category, with the bytes in
/// layers.
ordered_json to_json(const MemoryAtPeak& peak) {
  ordered_json kinds = ordered_json::array();
  for (const MemoryBreakdown::Category& category : peak.parts.categories)
    for (const MemoryBreakdown::Kind& kind : category.kinds) {
      ordered_json layers = ordered_json::object();
      for (const auto& [layer, bytes] : kind.layers) layers[std::to_string(layer)] = bytes;
      kinds.push_back({{"category", name_of(category.category)},
                       {"kind", kind.name},
                       {"bytes", kind.bytes},
                       {"layers", layers}});
    }
  return {{"step", peak.step}, {"total", peak.parts.total()}, {"kinds", kinds}};
}

/// Adds to a phase's object what the trace says about it.
void add_phase(ordered_json& document, const Report& report, std::size_t p) {
  const ObservedBubble& seen = report.bubbles[p];
  ordered_json& bubble = document["bubble"];
  if (seen.share) bubble["observed"] = *seen.share;
  if (seen.parts)
    bubble["parts"] = {{"uneven_stages", seen.parts->uneven},
                       {"uneven_actions", seen.parts->actions},
                       {"messages", seen.parts->messages}};
  const ObservedSteps::Means& means = report.where[p].means;
  document["communication_seconds"] = means.communication;
  document["hidden_communication_seconds"] = means.hidden;
  document["exposed_communication_seconds"] = means.exposed;
  document["exposed_parts_seconds"] = {
      {"transfer", means.transfer}, {"latency", means.latency}, {"late_peer", means.late_peer}};
  document["compute_seconds"] = means.compute;
  document["idle_seconds"] = means.idle;
  document["mean_step_seconds"] = means.step;
  if (!report.where[p].last.ranks.empty()) document["where"] = to_json(report.where[p].last);
  if (report.steps[p]) document["last_step"] = to_json(*report.steps[p], report.results.ranks, p);
  if (report.balances[p]) document["stages"] = to_json(*report.balances[p]);
}

}  // namespace

std::string Report::json() const {
  ordered_json document = ordered_json::parse(report_json(results));
  for (std::size_t p = 0; p < where.size(); ++p) {
    add_phase(document["phases"][p], *this, p);
    document["bubble"] = document["phases"][p]["bubble"];  // of the last phase
  }
  if (better.step >= 0) {
    document["counterfactuals"] = {{"step", better.step}, {"seconds", seconds(better.length)}};
    const std::vector<Sentence> sentences = better.sentences();
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      ordered_json object{{"claim", name_of(sentences[i].claim)},
                          {"changes", better.all[i].changes},
                          {"text", sentences[i].text}};
      for (const auto& [name, value] : sentences[i].values) object["values"][name] = value;
      document["counterfactuals"]["all"].push_back(object);
    }
  }
  std::size_t entry = 0;  // of the list of every rank's phases
  for (std::size_t rank = 0; rank < results.ranks.size(); ++rank)
    for (const PhaseResults& phase : results.ranks[rank].phases) {
      if (const auto peak = memory_at_peak(*this, rank, phase.phase))
        document["memory"][entry]["memory_at_peak"] = to_json(*peak);
      ++entry;
    }
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
