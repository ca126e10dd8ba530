#include "core/run/results.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

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

namespace {

json to_json(const std::vector<NamedValues>& tensors) {
  json list = json::array();
  for (const NamedValues& tensor : tensors) {
    std::vector<std::uint8_t> raw(tensor.values.size() * sizeof(float));
    if (!raw.empty()) std::memcpy(raw.data(), tensor.values.data(), raw.size());
    list.push_back({{"name", tensor.name},
                    {"order", tensor.order},
                    {"first", tensor.first},
                    {"values", json::binary(raw)}});
  }
  return list;
}

std::vector<NamedValues> tensors_from(const json& list) {
  std::vector<NamedValues> tensors;
  for (const json& tensor : list) {
    const auto& raw = tensor["values"].get_binary();
    std::vector<float> values(raw.size() / sizeof(float));
    if (!raw.empty()) std::memcpy(values.data(), raw.data(), raw.size());
    tensors.push_back({tensor["name"], tensor["order"], std::move(values), tensor["first"]});
  }
  return tensors;
}

}  // namespace

std::string RankRecord::to_bytes() const {
  json document{
      {"rank", rank}, {"host", host}, {"losses", losses}, {"train_seconds", train_seconds}};
  document["phases"] = json::array();
  for (const PhaseRecord& phase : phases) document["phases"].push_back(to_json(phase));
  document["parameters"] = to_json(parameters);
  document["moments"] = to_json(moments);
  document["gpu"] = {gpu.address, gpu.in_use, gpu.ours, gpu.late, gpu.least_delay};
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
                    .parameters = tensors_from(document["parameters"]),
                    .moments = tensors_from(document["moments"]),
                    .train_seconds = document["train_seconds"]};
  for (const json& phase : document["phases"]) record.phases.push_back(phase_from(phase));
  const json& gpu = document["gpu"];
  record.gpu = {gpu[0], gpu[1], gpu[2], gpu[3], gpu[4]};
  return record;
}

std::vector<double> collect_losses(const std::vector<RankRecord>& ranks, int steps) {
  std::vector<std::optional<double>> sums(static_cast<std::size_t>(steps));
  for (const RankRecord& rank : ranks)
    for (const auto& [step, loss] : rank.losses) {
      auto& sum = sums.at(static_cast<std::size_t>(step));
      sum = sum.value_or(0) + loss;
    }
  std::vector<double> losses;
  for (const auto& sum : sums) {
    if (!sum) throw RunError(fmt::format("no rank told the loss of step {}", losses.size()));
    losses.push_back(*sum);
  }
  return losses;
}

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Tensors of all ranks, whole, each once.
std::vector<NamedValues> put_together(const std::vector<RankRecord>& ranks,
                                      std::vector<NamedValues> RankRecord::*tensors) {
  std::map<std::pair<int, std::int64_t>, const NamedValues*> parts;  // by order and first element
  for (const RankRecord& rank : ranks) {
    for (const NamedValues& part : rank.*tensors) {
      const auto [known, is_new] = parts.emplace(std::pair{part.order, part.first}, &part);
      if (!is_new && !same_bits(known->second->values, part.values))
        throw RunError(
            fmt::format("replicas differ: rank {} has other values of {} than a rank before it",
                        rank.rank, part.name));
    }
  }
  std::vector<NamedValues> all;
  for (const auto& [place, part] : parts) {
    const auto [order, first] = place;
    if (first == 0) {
      all.push_back(*part);
      continue;
    }
    NamedValues* whole = all.empty() ? nullptr : &all.back();
    if (whole == nullptr || whole->order != order ||
        static_cast<std::int64_t>(whole->values.size()) != first)
      throw RunError(fmt::format(
          "no rank, or more than one, has what comes before element {} of {}", first, part->name));
    whole->values.insert(whole->values.end(), part->values.begin(), part->values.end());
  }
  return all;
}

}  // namespace

std::vector<NamedValues> collect_parameters(const std::vector<RankRecord>& ranks) {
  return put_together(ranks, &RankRecord::parameters);
}

std::vector<NamedValues> collect_moments(const std::vector<RankRecord>& ranks) {
  return put_together(ranks, &RankRecord::moments);
}

}  // namespace lockstep
