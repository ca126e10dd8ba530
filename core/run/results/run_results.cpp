#include "core/run/results/run_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lockstep {

namespace {

using nlohmann::ordered_json;

ordered_json number_or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

/// Returns the source of predicted bytes and peaks.
const char* source_of(const Predicted& predicted) {
  return predicted.by_dry_run ? "dry run" : "formula";
}

ordered_json json_of_phase(const RunResults& run, std::size_t p) {
  const PhaseResults& results = run.ranks.front().phases[p];
  return {{"name", results.phase.name},
          {"schedule", results.predicted.schedule},
          {"first_step", results.phase.first_step},
          {"steps", results.phase.steps},
          {"microbatches", results.phase.microbatches},
          {"last_step_seconds", seconds(run.step_time(p))},
          {"bubble",
           {{"observed", nullptr},
            {"predicted", number_or_null(results.predicted.bubble)},
            {"formula", results.predicted.formula},
            {"simulated", number_or_null(results.predicted.bubble_simulated)}}},
          {"communication_seconds", 0.0},
          {"hidden_communication_seconds", 0.0},
          {"exposed_communication_seconds", 0.0},
          {"exposed_parts_seconds", {{"transfer", 0.0}, {"latency", 0.0}, {"late_peer", 0.0}}},
          {"compute_seconds", 0.0},
          {"idle_seconds", 0.0},
          {"mean_step_seconds", 0.0}};
}

ordered_json communication_of(int rank, const PhaseResults& results) {
  ordered_json per_step = ordered_json::object(), predicted = ordered_json::object();
  for (const Operation operation : all_operations) {
    if (const std::int64_t sent = results.bytes_sent[operation]; sent > 0)
      per_step[name_of(operation)] = sent / results.phase.steps;
    if (const Figure& figure = results.predicted.bytes_sent[operation]; figure && *figure > 0)
      predicted[name_of(operation)] = *figure;
  }
  return {
      {"rank", rank},           {"phase", results.phase.name},
      {"bytes_sent", per_step}, {"overhead_bytes", results.overhead_bytes / results.phase.steps},
      {"predicted", predicted}, {"predicted_by", source_of(results.predicted)}};
}

ordered_json memory_of(int rank, const PhaseResults& results) {
  ordered_json peak, predicted = ordered_json::object();
  for (const MemoryCategory category : all_memory_categories) {
    peak[name_of(category)] = results.peak.of(category);
    if (const Figure& figure = results.predicted.peak_bytes[category])
      predicted[name_of(category)] = *figure;
  }
  return {{"rank", rank},
          {"phase", results.phase.name},
          {"peak", peak},
          {"predicted", predicted},
          {"predicted_by", source_of(results.predicted)},
          {"peak_total", results.peak_total}};
}

}  // namespace

std::vector<Phase> RunResults::phases() const {
  std::vector<Phase> phases;
  for (const PhaseResults& results : ranks.front().phases) phases.push_back(results.phase);
  return phases;
}

Picoseconds RunResults::step_time(std::size_t phase) const {
  Picoseconds longest = 0;
  for (const RankResults& rank : ranks) longest = std::max(longest, rank.phases[phase].last_step);
  return longest;
}

double RunResults::step_seconds() const {
  return ranks.front().train_seconds / static_cast<double>(steps);
}

std::string report_json(const RunResults& results) {
  ordered_json document;
  document["format"] = 1;
  document["run"] = results.run;
  document["lesson"] = results.lesson;
  document.update(ordered_json::parse(results.facts));
  document["losses"] = results.losses;
  document["reference_losses"] = results.reference_losses;
  if (const std::optional<Parity>& parity = results.parity)
    document["parity"] = {{"max_relative_loss", parity->max_relative_loss},
                          {"max_relative_parameter", parity->max_relative_parameter},
                          {"final_loss", parity->final_loss},
                          {"final_reference_loss", parity->reference_loss},
                          {"bitwise", parity->bitwise}};
  if (!results.difference.empty()) document["parity"]["difference"] = results.difference;
  if (results.same_in_order) document["parity"]["bitwise_in_order"] = *results.same_in_order;
  document["phases"] = ordered_json::array();
  for (std::size_t p = 0; p < results.ranks.front().phases.size(); ++p) {
    document["phases"].push_back(json_of_phase(results, p));
    document["bubble"] = document["phases"].back()["bubble"];  // of the last phase
  }
  ordered_json missing = ordered_json::object();  // figures that are not predicted, and why
  document["communication"] = ordered_json::array();
  document["memory"] = ordered_json::array();
  for (const RankResults& rank : results.ranks)
    for (const PhaseResults& phase : rank.phases) {
      for (const auto& [figure, why] : phase.predicted.missing()) missing[figure] = why;
      document["communication"].push_back(communication_of(rank.rank, phase));
      document["memory"].push_back(memory_of(rank.rank, phase));
    }
  for (const ProcessMemory& process : process_memory(results.ranks))
    document["resident_memory"].push_back({{"ranks", process.ranks},
                                           {"peak", process.resident},
                                           {"tensors", process.tensors},
                                           {"program", process.program},
                                           {"other", process.other()}});
  for (const RankResults& rank : results.ranks)
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
  document["step_seconds"] = results.step_seconds();
  if (results.step_tokens > 0)
    document["tokens_per_second"] =
        static_cast<double>(results.step_tokens) / results.step_seconds();
  document["sample"] = results.sample;
  for (const auto& [name, text] : results.own)
    document["results"][name] = ordered_json::parse(text);
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep
