#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/run/results/config_json.h"
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
ordered_json to_json(const ObservedStep& seen, const std::vector<RankResults>& ranks,
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
  for (const ObservedStep::OfRank& rank : seen.ranks) {
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

/// Returns the source of predicted bytes and peaks.
const char* source_of(const Predicted& predicted) {
  return predicted.by_dry_run ? "dry run" : "formula";
}

}  // namespace

std::string Report::json() const {
  ordered_json document;
  document["format"] = 1;
  document["run"] = run;
  document["lesson"] = lesson;
  document["ranks"] = options.plan.mesh.ranks();
  document["mesh"] = ordered_json::parse(options.plan.mesh.json());
  document["device"] = options.platform.device;
  document["launch"] = options.platform.launch == Launch::mpi ? "mpi" : "threads";
  document["clock"] = options.clock().name();
  document["why_this_clock"] = options.platform.why_this_clock;
  if (options.plan.modelled) {
    document["cluster"] = options.plan.modelled->cluster.name;
    document["rates"] = options.plan.modelled->cluster.rates_text();
    for (const auto& [rank, factor] : options.plan.modelled->slow)
      document["slow"][std::to_string(rank)] = factor;
  }
  document["sends"] = options.plan.modelled ? "buffered" : "rendezvous";
  document["config"] = ordered_json::parse(config_json(options));
  if (!ranks.front().phases.empty() && ranks.front().phases.front().predicted.stages > 0)
    document["config"]["split"] = options.plan.blocks_of_stages();
  document["losses"] = losses;
  document["reference_losses"] = reference_losses;
  if (parity)
    document["parity"] = {{"max_relative_loss", parity->max_relative_loss},
                          {"max_relative_parameter", parity->max_relative_parameter},
                          {"final_loss", parity->final_loss},
                          {"final_reference_loss", parity->reference_loss},
                          {"bitwise", parity->bitwise}};
  if (!difference.empty()) document["parity"]["difference"] = difference;
  if (same_in_order) document["parity"]["bitwise_in_order"] = *same_in_order;
  const auto optional = [](const std::optional<double>& value) {
    return value ? ordered_json(*value) : ordered_json();
  };
  document["phases"] = ordered_json::array();
  for (std::size_t p = 0; p < ranks.front().phases.size(); ++p) {
    const PhaseResults& results = ranks.front().phases[p];
    const ObservedBubble seen = p < bubbles.size() ? bubbles[p] : ObservedBubble{};
    ordered_json bubble{{"observed", optional(seen.share)},
                        {"predicted", optional(results.predicted.bubble)},
                        {"formula", results.predicted.formula},
                        {"simulated", optional(results.predicted.bubble_simulated)}};
    if (seen.parts)
      bubble["parts"] = {{"uneven_stages", seen.parts->uneven},
                         {"uneven_actions", seen.parts->actions},
                         {"messages", seen.parts->messages}};
    const ObservedSteps::Means means = p < where.size() ? where[p].means : ObservedSteps::Means{};
    document["phases"].push_back({{"name", results.phase.name},
                                  {"schedule", results.predicted.schedule},
                                  {"first_step", results.phase.first_step},
                                  {"steps", results.phase.steps},
                                  {"microbatches", results.phase.microbatches},
                                  {"last_step_seconds", seconds(step_time(p))},
                                  {"bubble", bubble},
                                  {"communication_seconds", means.communication},
                                  {"hidden_communication_seconds", means.hidden},
                                  {"exposed_communication_seconds", means.exposed},
                                  {"exposed_parts_seconds",
                                   {{"transfer", means.transfer},
                                    {"latency", means.latency},
                                    {"late_peer", means.late_peer}}},
                                  {"compute_seconds", means.compute},
                                  {"idle_seconds", means.idle},
                                  {"mean_step_seconds", means.step}});
    if (p < where.size() && !where[p].last.ranks.empty())
      document["phases"].back()["where"] = to_json(where[p].last);
    if (p < steps.size() && steps[p])
      document["phases"].back()["last_step"] = to_json(*steps[p], ranks, p);
    if (p < balances.size() && balances[p])
      document["phases"].back()["stages"] = to_json(*balances[p]);
    document["bubble"] = bubble;  // of the last phase
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
  ordered_json missing = ordered_json::object();  // figures that are not predicted, and why
  document["communication"] = ordered_json::array();
  document["memory"] = ordered_json::array();
  for (const RankResults& rank : ranks) {
    for (const PhaseResults& results : rank.phases) {
      for (const auto& [figure, why] : results.predicted.missing()) missing[figure] = why;
      ordered_json per_step = ordered_json::object(), predicted = ordered_json::object();
      for (const Operation operation : all_operations) {
        if (const std::int64_t sent = results.bytes_sent[operation]; sent > 0)
          per_step[name_of(operation)] = sent / results.phase.steps;
        if (const Figure& figure = results.predicted.bytes_sent[operation]; figure && *figure > 0)
          predicted[name_of(operation)] = *figure;
      }
      document["communication"].push_back(
          {{"rank", rank.rank},
           {"phase", results.phase.name},
           {"bytes_sent", per_step},
           {"overhead_bytes", results.overhead_bytes / results.phase.steps},
           {"predicted", predicted},
           {"predicted_by", source_of(results.predicted)}});
      ordered_json peak, predicted_peak = ordered_json::object();
      for (const MemoryCategory category : all_memory_categories) {
        peak[name_of(category)] = results.peak.of(category);
        if (const Figure& figure = results.predicted.peak_bytes[category])
          predicted_peak[name_of(category)] = *figure;
      }
      document["memory"].push_back({{"rank", rank.rank},
                                    {"phase", results.phase.name},
                                    {"peak", peak},
                                    {"predicted", predicted_peak},
                                    {"predicted_by", source_of(results.predicted)},
                                    {"peak_total", results.peak_total}});
      if (const auto at_peak =
              memory_at_peak(*this, static_cast<std::size_t>(&rank - ranks.data()), results.phase))
        document["memory"].back()["memory_at_peak"] = to_json(*at_peak);
    }
  }
  for (const ProcessMemory& process : process_memory(ranks))
    document["resident_memory"].push_back({{"ranks", process.ranks},
                                           {"peak", process.resident},
                                           {"tensors", process.tensors},
                                           {"program", process.program},
                                           {"other", process.other()}});
  for (const RankResults& rank : ranks)
    if (!rank.gpu.address.empty())
      document["gpus"].push_back({{"rank", rank.rank},
                                  {"address", rank.gpu.address},
                                  {"bytes_in_use", rank.gpu.in_use},
                                  {"bytes_of_tensors", rank.gpu.ours},
                                  {"streams", rank.gpu.queues},
                                  {"communicators", rank.gpu.communicators},
                                  {"bytes_of_communicators", rank.gpu.communicator_bytes},
                                  {"spans_late_seconds", seconds(rank.gpu.late)},
                                  {"least_launch_delay_seconds", seconds(rank.gpu.least_delay)}});
  document["not_predicted"] = missing;
  document["step_seconds"] = step_seconds();
  if (!options.platform.on_meta())
    document["tokens_per_second"] =
        options.plan.batch.sequences * options.plan.model().sequence / step_seconds();
  document["sample"] = sample;
  for (const auto& [name, text] : own) document["results"][name] = ordered_json::parse(text);
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
