// The results of ranks and runs as JSON: results.json, and the messages in which ranks send their
// results to rank 0.

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/input_file.h"
#include "core/base/printable.h"
#include "core/operations/operations_file.h"
#include "core/run/results/run_results.h"

namespace lockstep {

namespace {

using json = nlohmann::ordered_json;

constexpr int results_format = 1;
/// A document takes up to 24 times the memory of its text.
constexpr std::size_t most_bytes = 64 << 20;
constexpr int most_stages = 1 << 20;  ///< of a pipeline in a file that is accepted

json optional(const std::optional<double>& value) {
  return value ? json(*value) : json();
}
std::optional<double> optional(const json& value) {
  return value.is_null() ? std::optional<double>{} : value.get<double>();
}

/// A number, which JSON writes as null if it is not finite.
double number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}
std::vector<double> numbers(const json& list) {
  std::vector<double> values;
  for (const json& value : list) values.push_back(number(value));
  return values;
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
  results.phase = {value.at("name"), value.at("first_step"), value.at("steps"),
                   value.at("microbatches"), value.at("replicas")};
  results.predicted.formula = value.at("formula");
  results.predicted.bubble = optional(value.at("bubble"));
  results.predicted.bubble_simulated = optional(value.at("bubble_simulated"));
  results.predicted.schedule = value.at("schedule");
  results.predicted.stages = value.at("stages");
  results.predicted.by_dry_run = value.at("recomputed");
  if (const int in_flight = value.at("in_flight"); in_flight >= 0)
    results.predicted.in_flight = in_flight;
  for (std::size_t i = 0; i < all_operations.size(); ++i) {
    results.predicted.bytes_sent[all_operations[i]] =
        figure_from(value.at("predicted_bytes").at(i));
    results.bytes_sent[all_operations[i]] = value.at("bytes_sent").at(i);
  }
  for (std::size_t i = 0; i < all_memory_categories.size(); ++i)
    results.predicted.peak_bytes[all_memory_categories[i]] =
        figure_from(value.at("predicted_peak").at(i));
  results.overhead_bytes = value.at("overhead_bytes");
  results.last_step = value.at("last_step");
  results.peak.bytes = value.at("peak");
  results.peak_total = value.at("peak_total");
  return results;
}

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

/// Without the parameters.
json to_json(const RankResults& rank) {
  json document{{"rank", rank.rank},
                {"host", rank.host},
                {"losses", rank.losses},
                {"train_seconds", rank.train_seconds}};
  document["phases"] = json::array();
  for (const PhaseResults& phase : rank.phases) document["phases"].push_back(to_json(phase));
  const RankGpu& gpu = rank.gpu;
  document["gpu"] = {gpu.address, gpu.in_use,      gpu.ours,          gpu.queues,
                     gpu.late,    gpu.least_delay, gpu.communicators, gpu.communicator_bytes};
  document["process"] = {rank.process.id, rank.process.program, rank.process.resident};
  return document;
}

RankResults rank_from(const json& document) {
  RankResults results{.rank = document.at("rank"),
                      .host = document.at("host"),
                      .phases = {},
                      .losses = document.at("losses"),
                      .parameters = {},
                      .train_seconds = document.at("train_seconds")};
  for (const json& phase : document.at("phases")) results.phases.push_back(phase_from(phase));
  const json& gpu = document.at("gpu");
  results.gpu = {gpu.at(0), gpu.at(1), gpu.at(2), gpu.at(3),
                 gpu.at(4), gpu.at(5), gpu.at(6), gpu.at(7)};
  const json& process = document.at("process");
  results.process = {process.at(0), process.at(1), process.at(2)};
  return results;
}

json to_json(const std::optional<SplitProposal>& found) {
  if (!found) return {};
  return {{"split", found->split},
          {"step", found->step},
          {"better", found->better},
          {"better_step", found->better_step},
          {"embedding", found->embedding},
          {"block", found->block},
          {"head", found->head}};
}
std::optional<SplitProposal> proposal_from(const json& value) {
  if (value.is_null()) return {};
  return SplitProposal{.split = value.at("split"),
                       .step = value.at("step"),
                       .better = value.at("better"),
                       .better_step = value.at("better_step"),
                       .embedding = value.at("embedding"),
                       .block = value.at("block"),
                       .head = value.at("head")};
}

/// What the run and its reference were compared by; null if they were not compared.
json parity_of(const RunResults& results) {
  if (!results.parity) return {};
  const Parity& parity = *results.parity;
  const Tolerance& tolerance = results.tolerance;
  return {{"with", results.compared_with},
          {"max_relative_loss", parity.max_relative_loss},
          {"max_relative_parameter", parity.max_relative_parameter},
          {"worst_parameter", parity.worst_parameter},
          {"final_loss", parity.final_loss},
          {"reference_loss", parity.reference_loss},
          {"bitwise", parity.bitwise},
          {"tolerance", {tolerance.loss, tolerance.parameter, tolerance.final_loss}},
          {"same_in_order", results.same_in_order ? json(*results.same_in_order) : json()},
          {"difference", results.difference},
          {"reference_dtype", results.reference_dtype},
          {"reference_losses", results.reference_losses}};
}

void read_parity(const json& value, RunResults& results) {
  if (value.is_null()) return;
  results.compared_with = value.at("with");
  results.parity = {.max_relative_loss = number(value.at("max_relative_loss")),
                    .max_relative_parameter = number(value.at("max_relative_parameter")),
                    .worst_parameter = value.at("worst_parameter"),
                    .final_loss = number(value.at("final_loss")),
                    .reference_loss = number(value.at("reference_loss")),
                    .bitwise = value.at("bitwise")};
  const json& tolerance = value.at("tolerance");
  results.tolerance = {tolerance.at(0), tolerance.at(1), tolerance.at(2)};
  if (const json& same = value.at("same_in_order"); !same.is_null()) results.same_in_order = same;
  results.difference = value.at("difference");
  results.reference_dtype = value.at("reference_dtype");
  results.reference_losses = numbers(value.at("reference_losses"));
}

RunResults results_from(const json& document) {
  if (document.at("lockstep_results") != results_format)
    throw UsageError(fmt::format("has format {}; this Lockstep reads format {}",
                                 document.at("lockstep_results").dump(), results_format));
  if (!document.at("facts").is_object()) throw UsageError("its facts are not an object");
  RunResults results{.run = document.at("run"),
                     .lesson = document.at("lesson"),
                     .facts = document.at("facts").dump()};
  results.steps = document.at("steps");
  results.modelled = document.at("modelled");
  results.uncomputed = document.at("uncomputed");
  results.step_tokens = document.at("step_tokens");
  results.stages = document.at("stages");
  results.pipeline = document.at("pipeline").get<std::vector<int>>();
  results.first_microbatches = document.at("first_microbatches").get<std::vector<int>>();
  for (const json& proposal : document.at("proposals"))
    results.proposals.push_back(proposal_from(proposal));
  for (const json& rank : document.at("ranks")) results.ranks.push_back(rank_from(rank));
  results.losses = numbers(document.at("losses"));
  results.dtype = document.at("dtype");
  read_parity(document.at("parity"), results);
  results.sample = document.at("sample");
  results.sample_follows_the = document.at("sample_follows_the");
  for (const auto& [name, value] : document.at("own").items()) results.own[name] = value.dump();
  for (const json& alternative : document.at("alternatives"))
    results.alternatives.push_back(
        {alternative.at("what"),
         parse_operations(alternative.at("operations"), "its alternative's operations")});
  return results;
}

/// Throws UsageError if the text is nested too deep for functions that call themselves, or if an
/// object has so many keys that searching it takes long.
void check_shape(const std::string& text) {
  constexpr std::size_t most_levels = 64, most_keys = 4096;
  std::vector<std::size_t> keys;  // of the objects and arrays around a character
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '{' || c == '[') keys.push_back(0);
    if ((c == '}' || c == ']') && !keys.empty()) keys.pop_back();
    if (c == ':' && !keys.empty() && ++keys.back() > most_keys)
      throw UsageError(fmt::format("has an object with more than {} keys", most_keys));
    if (keys.size() > most_levels)
      throw UsageError(fmt::format("is nested more than {} levels deep", most_levels));
  }
}

/// A terminal obeys escape sequences, so no string that is read contains one.
void make_printable(json& value) {
  if (value.is_string()) value = printable(value.get_ref<const std::string&>());
  if (value.is_structured())
    for (json& part : value) make_printable(part);
}

/// Throws UsageError if the parts of the results do not fit together.
void check(const RunResults& results) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw UsageError(fmt::format("its {} do not fit together", what));
  };
  const auto count = static_cast<int>(results.ranks.size());
  require(count > 0 && results.steps > 0, "steps and ranks");
  const std::size_t phases = results.ranks.front().phases.size();
  require(results.proposals.size() == phases && results.first_microbatches.size() == phases,
          "phases");
  for (int rank = 0; rank < count; ++rank) {
    const RankResults& each = results.ranks[static_cast<std::size_t>(rank)];
    require(each.rank == rank && each.phases.size() == phases, "ranks");
    for (const PhaseResults& phase : each.phases)
      require(phase.phase.steps > 0 && phase.phase.first_step >= 0 &&
                  phase.phase.steps <= results.steps - phase.phase.first_step &&
                  phase.predicted.stages >= 0 && phase.predicted.stages <= most_stages,
              "phases");
  }
  for (const int microbatches : results.first_microbatches)
    require(microbatches > 0, "microbatches");
  for (const int rank : results.pipeline) require(rank >= 0 && rank < count, "pipeline's ranks");
}

}  // namespace

std::string RankResults::to_bytes() const {
  json document = to_json(*this);
  document["parameters"] = to_json(parameters);
  std::string bytes;
  json::to_cbor(document, nlohmann::detail::output_adapter<char>(bytes));
  return bytes;
}

RankResults RankResults::from_bytes(const std::string& bytes) {
  const json document = json::from_cbor(bytes);
  RankResults results = rank_from(document);
  results.parameters = tensors_from(document["parameters"]);
  return results;
}

std::string text_of(const RunResults& results) {
  json document{{"lockstep_results", results_format},
                {"run", results.run},
                {"lesson", results.lesson},
                {"facts", json::parse(results.facts)},
                {"steps", results.steps},
                {"modelled", results.modelled},
                {"uncomputed", results.uncomputed},
                {"step_tokens", results.step_tokens},
                {"stages", results.stages},
                {"pipeline", results.pipeline},
                {"first_microbatches", results.first_microbatches},
                {"proposals", json::array()},
                {"ranks", json::array()},
                {"losses", results.losses},
                {"dtype", results.dtype},
                {"parity", parity_of(results)},
                {"sample", results.sample},
                {"sample_follows_the", results.sample_follows_the},
                {"own", json::object()},
                {"alternatives", json::array()}};
  for (const auto& proposal : results.proposals) document["proposals"].push_back(to_json(proposal));
  for (const RankResults& rank : results.ranks) {
    document["ranks"].push_back(to_json(rank));
    document["ranks"].back()["losses"] = json::array();  // they are in the run's
  }
  for (const auto& [name, text] : results.own) document["own"][name] = json::parse(text);
  for (const Alternative& alternative : results.alternatives)
    document["alternatives"].push_back(
        {{"what", alternative.what}, {"operations", text_of(alternative.operations)}});
  return document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

RunResults read_results(const std::string& file) {
  try {
    const std::string text = content_of(file);
    if (text.size() > most_bytes)
      throw UsageError(
          fmt::format("has {} bytes; a run's results have at most {}", text.size(), most_bytes));
    check_shape(text);
    json document = json::parse(text);
    make_printable(document);
    RunResults results = results_from(document);
    check(results);
    return results;
  } catch (const json::exception& error) {
    throw UsageError(
        fmt::format("{}: is not the results of a run: {}", file, excerpt(error.what(), 200)));
  } catch (const std::runtime_error& error) {  // InputError or UsageError
    throw UsageError(fmt::format("{}: {}", file, error.what()));
  }
}

}  // namespace lockstep
