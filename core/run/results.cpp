#include "core/run/results.h"

#include <cstring>
#include <nlohmann/json.hpp>

namespace lockstep {

namespace {

using nlohmann::json;

json optional(const std::optional<double>& value) {
  return value ? json(*value) : json();
}
std::optional<double> optional(const json& value) {
  return value.is_null() ? std::optional<double>{} : value.get<double>();
}

json to_json(const PhaseRecord& record) {
  return {{"name", record.phase.name},
          {"first_step", record.phase.first_step},
          {"steps", record.phase.steps},
          {"microbatches", record.phase.microbatches},
          {"formula", record.predicted.formula},
          {"bubble", optional(record.predicted.bubble)},
          {"bubble_simulated", optional(record.predicted.bubble_simulated)},
          {"predicted_bytes", record.predicted.bytes_sent},
          {"predicted_peak", record.predicted.peak_bytes},
          {"schedule", record.predicted.schedule},
          {"stages", record.predicted.stages},
          {"bytes_sent", record.bytes_sent},
          {"peak", record.peak.bytes}};
}

PhaseRecord phase_from(const json& value) {
  PhaseRecord record;
  record.phase = {value["name"], value["first_step"], value["steps"], value["microbatches"]};
  record.predicted = {.formula = value["formula"],
                      .bubble = optional(value["bubble"]),
                      .bubble_simulated = optional(value["bubble_simulated"]),
                      .bytes_sent = value["predicted_bytes"],
                      .peak_bytes = value["predicted_peak"],
                      .schedule = value["schedule"],
                      .stages = value["stages"]};
  record.bytes_sent = value["bytes_sent"];
  record.peak.bytes = value["peak"];
  return record;
}

}  // namespace

std::string predicted_json(const Phase& phase, const Predicted& predicted) {
  nlohmann::ordered_json args;
  if (predicted.bubble) args["bubble"] = *predicted.bubble;
  if (predicted.bubble_simulated) args["bubble_simulated"] = *predicted.bubble_simulated;
  if (!predicted.formula.empty()) args["formula"] = predicted.formula;
  if (!predicted.schedule.empty()) args["schedule"] = predicted.schedule;
  if (predicted.stages > 0) args["stages"] = predicted.stages;
  args["phase"] = phase.name;
  args["first_step"] = phase.first_step;
  args["microbatches"] = phase.microbatches;
  return args.dump();
}

std::string RankRecord::to_bytes() const {
  json document{
      {"rank", rank}, {"host", host}, {"losses", losses}, {"train_seconds", train_seconds}};
  document["phases"] = json::array();
  for (const PhaseRecord& phase : phases) document["phases"].push_back(to_json(phase));
  document["parameters"] = json::array();
  for (const NamedValues& parameter : parameters) {
    std::vector<std::uint8_t> raw(parameter.values.size() * sizeof(float));
    if (!raw.empty()) std::memcpy(raw.data(), parameter.values.data(), raw.size());
    document["parameters"].push_back({{"name", parameter.name},
                                      {"order", parameter.order},
                                      {"first", parameter.first},
                                      {"values", json::binary(raw)}});
  }
  std::string bytes;
  json::to_cbor(document, nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

RankRecord RankRecord::from_bytes(const std::string& bytes) {
  const json document = json::from_cbor(bytes);
  RankRecord record{.rank = document["rank"],
                    .host = document["host"],
                    .phases = {},
                    .losses = document["losses"],
                    .parameters = {},
                    .train_seconds = document["train_seconds"]};
  for (const json& phase : document["phases"]) record.phases.push_back(phase_from(phase));
  for (const json& parameter : document["parameters"]) {
    const auto& raw = parameter["values"].get_binary();
    std::vector<float> values(raw.size() / sizeof(float));
    if (!raw.empty()) std::memcpy(values.data(), raw.data(), raw.size());
    record.parameters.push_back(
        {parameter["name"], parameter["order"], std::move(values), parameter["first"]});
  }
  return record;
}

}  // namespace lockstep
