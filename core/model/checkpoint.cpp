#include "core/model/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/error.h"
#include "core/device/host_copy.h"
#include "core/model/checkpoint_folder.h"
#include "core/model/safetensors.h"

namespace lockstep {

namespace {

constexpr const char* moments_name = "optimizer.safetensors";

bool is_file_name(const std::string& path) {
  return path.ends_with(".safetensors");
}

std::string tensors_file(const std::string& path) {
  return is_file_name(path) ? path : folder_to_load(path) + "/model.safetensors";
}

/// Returns config.json's text, with the fields that GPT2Config needs.
std::string config_json(const GptConfig& config) {
  const nlohmann::ordered_json document = {{"architectures", {"GPT2LMHeadModel"}},
                                           {"model_type", "gpt2"},
                                           {"vocab_size", config.vocabulary},
                                           {"n_positions", config.sequence},
                                           {"n_embd", config.hidden},
                                           {"n_layer", config.layers},
                                           {"n_head", config.heads},
                                           {"activation_function", "gelu_new"},
                                           {"layer_norm_epsilon", 1e-5},
                                           {"tie_word_embeddings", config.tied},
                                           {"resid_pdrop", 0.0},
                                           {"embd_pdrop", 0.0},
                                           {"attn_pdrop", 0.0},
                                           {"bos_token_id", nullptr},
                                           {"eos_token_id", nullptr},
                                           {"torch_dtype", "float32"}};
  return document.dump(2) + "\n";
}

/// Returns whether a tensor may be ignored: Hugging Face stores each block's causal mask as a
/// tensor, and may store a tied head too.
bool is_buffer(const std::string& name, bool tied) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         (tied && name == "lm_head.weight");
}

std::string with_prefix(const std::string& name) {
  return name.starts_with("transformer.") || name == "lm_head.weight" ? name
                                                                      : "transformer." + name;
}

std::string text_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

/// Maps each parameter's name to its name in the file. Throws UsageError for the first tensor that
/// is missing or unknown, or that does not match the configuration.
std::map<std::string, std::string> matched(const std::string& path, const SafetensorsFile& file,
                                           const Plan& plan) {
  const GptConfig& config = plan.model();
  const auto unfit = [&](const std::string& name, const std::string& what) {
    return UsageError{fmt::format(
        "--load {}: tensor {} {}; load a checkpoint of a model with --layers {} --hidden {} "
        "--sequence {} --vocab {} and {} head, or give the flags of this one's model",
        path, name, what, config.layers, config.hidden, config.sequence, config.vocabulary,
        config.tied ? "a tied" : "an untied")};
  };
  std::map<std::string, std::string> names;
  const std::vector<ParameterSpec>& specs = plan.parameters();
  for (const SafetensorsFile::Entry& entry : file.entries()) {
    if (is_buffer(entry.name, config.tied)) continue;
    const std::string name = with_prefix(entry.name);
    const auto spec = std::ranges::find(specs, name, &ParameterSpec::name);
    if (spec == specs.end()) throw unfit(entry.name, "is not a parameter of this model");
    if (entry.dtype != "F32") throw unfit(entry.name, "is " + entry.dtype + ", not F32");
    std::vector<std::int64_t> wanted;
    for (int i = 0; i < spec->shape.rank(); ++i) wanted.push_back(spec->shape[i]);
    if (entry.shape != wanted)
      throw unfit(entry.name, fmt::format("has shape [{}], not {}", fmt::join(entry.shape, ", "),
                                          text_of(spec->shape)));
    if (!names.emplace(name, entry.name).second)
      throw unfit(entry.name, "appears twice, with and without `transformer.`");
  }
  for (const ParameterSpec& spec : specs)
    if (!names.contains(spec.name)) throw unfit(spec.name, "is missing");
  return names;
}

/// Checks the number of heads, which the shapes do not reveal, against config.json if there is one.
void check_heads(const std::string& path, const GptConfig& config) {
  if (is_file_name(path)) return;
  const std::string name = folder_to_load(path) + "/config.json";
  if (!std::filesystem::is_regular_file(name)) return;
  std::ifstream file{name};
  const auto document = nlohmann::ordered_json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return;  // no config.json: only the shapes are checked
  const auto heads = document.find("n_head");
  if (heads != document.end() && heads->is_number_integer() && *heads != config.heads)
    throw UsageError{
        fmt::format("--load {}: its model has {} heads, but --heads is {}; use "
                    "--heads {}",
                    path, heads->dump(), config.heads, heads->dump())};
}

/// Throws UsageError if a tied model's file has an lm_head.weight that differs from the token
/// table.
void check_tied(const std::string& path, SafetensorsFile& file, const GptConfig& config,
                const std::map<std::string, std::string>& names) {
  const ParameterSpec table = token_table_spec(config);
  const auto* head = file.find("lm_head.weight");
  if (!config.tied || head == nullptr) return;
  const auto read = [&](const std::string& name) {
    std::vector<float> values(static_cast<std::size_t>(table.shape.elements()));
    file.read(name, View{values.data(), table.shape});
    return values;
  };
  if (read("lm_head.weight") != read(names.at(table.name)))
    throw UsageError{fmt::format(
        "--load {}: its model has an untied head, lm_head.weight; leave out --tied", path)};
}

}  // namespace

void save_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters,
                     const std::optional<OptimizerState>& optimizer) {
  std::vector<NamedView> tensors;
  std::list<std::vector<float>> values;
  for (const ParameterSpec& spec : plan.parameters()) {
    const auto found = std::ranges::find(parameters, spec.name, &Parameter::name);
    if (found == parameters.end() || !(*found)->value || !(*found)->slice.is_whole())
      throw std::invalid_argument{"save_checkpoint: " + spec.name + " is not on this rank in full"};
    tensors.push_back(
        {spec.name, View{values.emplace_back((*found)->f32_values(device)).data(), spec.shape}});
  }
  if (is_file_name(path)) {
    write_safetensors(path, tensors);
    return;
  }
  std::vector<CheckpointFile> files{
      {"config.json", [&](NewFile& file) { file.write(config_json(plan.model())); }},
      {"model.safetensors", [&](NewFile& file) { write_safetensors(file, tensors); }}};
  auto steps = static_cast<std::int32_t>(optimizer ? optimizer->steps : 0);
  std::vector<NamedView> moments{{"steps", View{&steps, {1}, DType::i32}}};
  if (optimizer) {
    for (const NamedMoment& moment : optimizer->moments)
      moments.push_back({moment.name, View{const_cast<float*>(moment.values.data()),
                                           {static_cast<std::int64_t>(moment.values.size())}}});
    files.push_back({moments_name, [&](NewFile& file) { write_safetensors(file, moments); }});
  }
  write_checkpoint_folder(path, steps, files);
}

namespace {

std::map<std::string, std::string> checked(const std::string& path, SafetensorsFile& file,
                                           const Plan& plan) {
  auto names = matched(path, file, plan);
  check_heads(path, plan.model());
  check_tied(path, file, plan.model(), names);
  return names;
}

/// Copies a slice of a tensor, or of its flattened moments, from the file to `places`. Fills
/// padding with zeros.
void read_to(Device device, SafetensorsFile& file, const std::string& name, const Slice& slice,
             const std::vector<View>& places) {
  std::vector<float> values(static_cast<std::size_t>(slice.local().elements()));
  for (const auto& [in_whole, in_local, elements] : slice.runs())
    file.read_part(name, in_whole, View{values.data() + in_local, {elements}});
  for (const View& place : places) from_host(device, values, place);
}

}  // namespace

void load_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters) {
  SafetensorsFile file{tensors_file(path)};
  const auto names = checked(path, file, plan);
  for (const Parameter* parameter : parameters)
    if (parameter->value)
      read_to(device, file, names.at(parameter->name), parameter->slice,
              {parameter->value, parameter->master});
}

namespace {

std::string moments_file(const std::string& path) {
  return folder_to_load(path) + "/" + moments_name;
}

bool has_moments(const std::string& path) {
  return !is_file_name(path) && std::filesystem::exists(moments_file(path));
}

/// Returns the folder's manifest, or nothing if `path` is a file or another program wrote the
/// folder.
std::optional<Manifest> manifest_of(const std::string& path) {
  return is_file_name(path) ? std::nullopt : read_manifest(folder_to_load(path));
}

}  // namespace

std::string check_checkpoint_fits(const std::string& path, const Plan& plan, bool values) {
  const auto manifest = manifest_of(path);
  const bool moments = has_moments(path);
  if (moments && !(manifest && manifest->files.contains(moments_name)))
    throw UsageError{
        fmt::format("--load {}: {}, so nothing shows that {} belongs to the weights; load "
                    "only the weights, by naming its model.safetensors",
                    path,
                    manifest ? "its manifest.json lists no " + std::string{moments_name}
                             : "it has no manifest.json",
                    moments_name)};
  if (manifest && values) verify_files(folder_to_load(path), *manifest);
  SafetensorsFile file{tensors_file(path)};
  for (const auto& [name, in_file] : checked(path, file, plan))
    if (values) file.check_values(in_file);
  if (moments && values) {
    SafetensorsFile optimizer{moments_file(path)};
    for (const SafetensorsFile::Entry& entry : optimizer.entries())
      if (entry.dtype == "F32")
        optimizer.check_values(entry.name, !entry.name.ends_with(".variance"));
  }
  return manifest ? manifest->to_json() : "";
}

void check_unchanged(const std::string& path, const std::string& state) {
  const auto manifest = manifest_of(path);
  if ((manifest ? manifest->to_json() : "") != state)
    throw RunError{fmt::format(
        "--load {}: another run replaced this checkpoint while it was being loaded; try again",
        path)};
}

std::optional<std::int64_t> trained_steps(const std::string& path, const Plan& plan) {
  if (!has_moments(path)) return {};
  SafetensorsFile file{moments_file(path)};
  std::size_t wanted = 1;
  for (const ParameterSpec& spec : plan.parameters()) {
    if (spec.frozen) continue;
    wanted += 2;
    for (const char* moment : {".momentum", ".variance"})
      if (const auto* entry = file.find(spec.name + moment);
          entry == nullptr || entry->dtype != "F32" ||
          entry->shape != std::vector{spec.shape.elements()})
        throw UsageError{fmt::format(
            "--load {}: its optimizer has no {}{} of {} elements; give the --freeze of that run, "
            "or load its model.safetensors alone",
            path, spec.name, moment, spec.shape.elements())};
  }
  if (file.entries().size() != wanted)
    throw UsageError{
        fmt::format("--load {}: its optimizer trained other parameters too; give the --freeze of "
                    "that run, or load its model.safetensors alone",
                    path)};
  std::int32_t steps = 0;
  file.read("steps", View{&steps, {1}, DType::i32});
  return steps;
}

void load_moments(const std::string& path, AdamW& optimizer) {
  if (!has_moments(path)) return;
  SafetensorsFile file{moments_file(path)};
  for (const auto& [parameter, momentum, variance] : optimizer.moments()) {
    if (!momentum) continue;  // on the meta device
    const Device device = optimizer.device();
    read_to(device, file, parameter->name + ".momentum", parameter->slice, {momentum});
    read_to(device, file, parameter->name + ".variance", parameter->slice, {variance});
  }
  std::int32_t steps = 0;
  file.read("steps", View{&steps, {1}, DType::i32});
  optimizer.resume(steps);
}

}  // namespace lockstep
