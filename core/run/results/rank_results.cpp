#include "core/run/results/rank_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace lockstep {

namespace {

using json = nlohmann::ordered_json;

json optional(const std::optional<double>& value) {
  return value ? json(*value) : json();
}
std::optional<double> optional(const json& value) {
  return value.is_null() ? std::optional<double>{} : value.get<double>();
}

json to_json(const Figure& figure) {
  return figure ? json(*figure) : json(figure.why_not());
}
Figure figure_from(const json& value) {
  if (value.is_number()) return value.get<std::int64_t>();
  return Figure::not_predicted(value.get<std::string>());
}

json to_json(const PhaseResults& results) {
  json document{{"name", results.phase.name},
                {"first_step", results.phase.first_step},
                {"steps", results.phase.steps},
                {"microbatches", results.phase.microbatches},
                {"replicas", results.phase.replicas},
                {"formula", results.predicted.formula},
                {"bubble", optional(results.predicted.bubble)},
                {"bubble_simulated", optional(results.predicted.bubble_simulated)},
                {"schedule", results.predicted.schedule},
                {"stages", results.predicted.stages},
                {"in_flight", results.predicted.in_flight.value_or(-1)},
                {"recomputed", results.predicted.by_dry_run},
                {"overhead_bytes", results.overhead_bytes},
                {"last_step", results.last_step},
                {"peak", results.peak.bytes},
                {"peak_total", results.peak_total}};
  for (const Operation operation : all_operations) {
    document["predicted_bytes"].push_back(to_json(results.predicted.bytes_sent[operation]));
    document["bytes_sent"].push_back(results.bytes_sent[operation]);
  }
  for (const MemoryCategory category : all_memory_categories)
    document["predicted_peak"].push_back(to_json(results.predicted.peak_bytes[category]));
  return document;
}

PhaseResults phase_from(const json& value) {
  PhaseResults results;
  results.phase = {value["name"], value["first_step"], value["steps"], value["microbatches"],
                   value["replicas"]};
  results.predicted.formula = value["formula"];
  results.predicted.bubble = optional(value["bubble"]);
  results.predicted.bubble_simulated = optional(value["bubble_simulated"]);
  results.predicted.schedule = value["schedule"];
  results.predicted.stages = value["stages"];
  results.predicted.by_dry_run = value["recomputed"];
  if (const int in_flight = value["in_flight"]; in_flight >= 0)
    results.predicted.in_flight = in_flight;
  for (std::size_t i = 0; i < all_operations.size(); ++i) {
    results.predicted.bytes_sent[all_operations[i]] = figure_from(value["predicted_bytes"][i]);
    results.bytes_sent[all_operations[i]] = value["bytes_sent"][i];
  }
  for (std::size_t i = 0; i < all_memory_categories.size(); ++i)
    results.predicted.peak_bytes[all_memory_categories[i]] =
        figure_from(value["predicted_peak"][i]);
  results.overhead_bytes = value["overhead_bytes"];
  results.last_step = value["last_step"];
  results.peak.bytes = value["peak"];
  results.peak_total = value["peak_total"];
  return results;
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

/// A slice's shapes and offsets, as JSON.
json to_json(const Slice& slice) {
  const auto extents = [](const Shape& shape) {
    json list = json::array();
    for (int d = 0; d < shape.rank(); ++d) list.push_back(shape[d]);
    return list;
  };
  json pieces = json::array();
  for (const Slice::Piece& piece : slice.pieces())
    pieces.push_back({piece.box.begin, extents(piece.box.extent), piece.offset, piece.strides});
  return {extents(slice.whole()), extents(slice.local()), pieces};
}
Slice slice_from(const json& value) {
  std::vector<Slice::Piece> pieces;
  const auto shape = [](const json& extents) {
    return shape_of(extents.get<std::vector<std::int64_t>>());
  };
  for (const json& piece : value[2])
    pieces.push_back({.box = {.begin = piece[0], .extent = shape(piece[1])},
                      .offset = piece[2],
                      .strides = piece[3]});
  return Slice::of_pieces(shape(value[0]), shape(value[1]), std::move(pieces));
}

json to_json(const std::vector<NamedValues>& tensors) {
  json list = json::array();
  for (const NamedValues& tensor : tensors) {
    std::vector<std::uint8_t> raw(tensor.values.size() * sizeof(float));
    if (!raw.empty()) std::memcpy(raw.data(), tensor.values.data(), raw.size());
    list.push_back({{"name", tensor.name},
                    {"order", tensor.order},
                    {"slice", to_json(tensor.slice)},
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
    tensors.push_back(
        {tensor["name"], tensor["order"], std::move(values), slice_from(tensor["slice"])});
  }
  return tensors;
}

}  // namespace

std::string RankResults::to_bytes() const {
  json document{
      {"rank", rank}, {"host", host}, {"losses", losses}, {"train_seconds", train_seconds}};
  document["phases"] = json::array();
  for (const PhaseResults& phase : phases) document["phases"].push_back(to_json(phase));
  document["parameters"] = to_json(parameters);
  document["gpu"] = {gpu.address, gpu.in_use,      gpu.ours,          gpu.queues,
                     gpu.late,    gpu.least_delay, gpu.communicators, gpu.communicator_bytes};
  document["process"] = {process.id, process.program, process.resident};
  std::string bytes;
  json::to_cbor(document, nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

RankResults RankResults::from_bytes(const std::string& bytes) {
  const json document = json::from_cbor(bytes);
  RankResults results{.rank = document["rank"],
                      .host = document["host"],
                      .phases = {},
                      .losses = document["losses"],
                      .parameters = tensors_from(document["parameters"]),
                      .train_seconds = document["train_seconds"]};
  for (const json& phase : document["phases"]) results.phases.push_back(phase_from(phase));
  const json& gpu = document["gpu"];
  results.gpu = {gpu[0], gpu[1], gpu[2], gpu[3], gpu[4], gpu[5], gpu[6], gpu[7]};
  const json& process = document["process"];
  results.process = {process[0], process[1], process[2]};
  return results;
}

std::vector<double> collect_losses(const std::vector<RankResults>& ranks, int steps) {
  std::vector<std::optional<double>> sums(static_cast<std::size_t>(steps));
  for (const RankResults& rank : ranks)
    for (const auto& [step, loss] : rank.losses) {
      auto& sum = sums.at(static_cast<std::size_t>(step));
      sum = sum.value_or(0) + loss;
    }
  std::vector<double> losses;
  for (const auto& sum : sums) {
    if (!sum) throw RunError(fmt::format("no rank recorded a loss for step {}", losses.size()));
    losses.push_back(*sum);
  }
  return losses;
}

namespace {

/// A tensor being assembled from slices.
struct Assembly {
  NamedValues tensor;
  std::vector<bool> here;  ///< by element
};

}  // namespace

std::vector<NamedValues> collect_parameters(const std::vector<RankResults>& ranks) {
  std::map<int, Assembly> assemblies;  // by order
  for (const RankResults& rank : ranks) {
    for (const NamedValues& part : rank.parameters) {
      const auto stored = static_cast<std::int64_t>(part.values.size());
      const Slice slice = part.slice.whole().rank() > 0 ? part.slice : Slice{Shape{stored}};
      Assembly& whole = assemblies[part.order];
      if (whole.here.empty()) {
        const auto elements = static_cast<std::size_t>(slice.whole().elements());
        whole = {{part.name, part.order, std::vector<float>(elements), Slice{slice.whole()}},
                 std::vector<bool>(elements)};
      }
      if (slice.whole().elements() != static_cast<std::int64_t>(whole.here.size()) ||
          slice.local().elements() != stored)
        throw RunError(fmt::format("rank {} has {} elements of {}, which is {}", rank.rank, stored,
                                   part.name, slice.text()));
      for (const auto& [in_whole, in_local, elements] : slice.runs())
        for (std::int64_t i = 0; i < elements; ++i) {
          const auto at = static_cast<std::size_t>(in_whole + i);
          const float value = part.values[static_cast<std::size_t>(in_local + i)];
          float& known = whole.tensor.values[at];
          if (!whole.here[at])
            known = value;
          else if (std::bit_cast<std::uint32_t>(known) != std::bit_cast<std::uint32_t>(value))
            throw RunError(
                fmt::format("replicas differ: rank {} and a lower rank have different values of {}",
                            rank.rank, part.name));
          whole.here[at] = true;
        }
    }
  }
  std::vector<NamedValues> all;
  for (auto& [order, whole] : assemblies) {
    const auto missing = std::ranges::find(whole.here, false);
    if (missing != whole.here.end())
      throw RunError(fmt::format("no rank has element {} of {}", missing - whole.here.begin(),
                                 whole.tensor.name));
    all.push_back(std::move(whole.tensor));
  }
  return all;
}

}  // namespace lockstep
