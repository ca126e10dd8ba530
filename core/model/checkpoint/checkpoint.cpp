#include "core/model/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/device/host_copy.h"
#include "core/model/checkpoint/checkpoint_folder.h"
#include "core/model/checkpoint/model_file.h"
#include "core/model/checkpoint/saved_tensors.h"

namespace lockstep {

namespace {

/// Returns whether a tensor may be ignored: Hugging Face stores each block's causal mask or rotary
/// frequencies as a tensor, and may store a tied head too.
bool is_buffer(const std::string& name, bool tied) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq") || (tied && name == "lm_head.weight");
}

/// Returns a name of transformers with the prefix that a model without a head omits.
std::string with_prefix(const std::string& name, bool llama) {
  const std::string prefix = llama ? "model." : "transformer.";
  return name.starts_with(prefix) || name == "lm_head.weight" ? name : prefix + name;
}

/// Returns the parts in the order of their rows, as boxes of the parameter that consists of them.
SavedTensor stacked(const ParameterSpec& spec, const std::vector<const SavedTensor*>& parts) {
  SavedTensor whole{spec.name, parts.front()->dtype, extents_of(spec.shape), {}};
  std::int64_t row = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t rows = spec.stacked[i].rows;
    for (SavedBox box : parts[i]->boxes) {
      box.name = parts[i]->name_of(box);
      box.box = {.begin = {row}, .extent = {rows, spec.shape[1]}};
      whole.boxes.push_back(std::move(box));
    }
    row += rows;
  }
  return whole;
}

/// The flags on which the shapes of the tensors depend: "a GPT-2 with --layers 8 ...".
std::string shape_of_tensors(const GptConfig& config) {
  if (config.llama)
    return fmt::format(
        "a Llama with --layers {} --hidden {} --heads {} --kv-heads {} --mlp-width {} --vocab {}",
        config.layers, config.hidden, config.heads, config.kv_heads(), config.mlp_width(),
        config.vocabulary);
  return fmt::format("a GPT-2 with --layers {} --hidden {} --sequence {} --vocab {}", config.layers,
                     config.hidden, config.sequence, config.vocabulary);
}

/// Maps each parameter's name to its tensor. Throws UsageError for the first tensor that is missing
/// or unknown, or that does not match the configuration.
std::map<std::string, SavedTensor> matched(const std::string& path, const SavedTensors& saved,
                                           const Plan& plan) {
  const GptConfig& config = plan.model();
  const auto unfit = [&](const std::string& name, const std::string& what) {
    return UsageError{fmt::format(
        "--load {}: tensor {} {}; load a checkpoint of {} and {} head, or give the flags of this "
        "one's model",
        path, name, what, shape_of_tensors(config), config.tied ? "a tied" : "an untied")};
  };
  for (const SavedTensor& tensor : saved.tensors())
    if (tensor.name.ends_with(config.llama ? "wte.weight" : "embed_tokens.weight"))
      throw UsageError{fmt::format(
          "--load {}: tensor {} is a {}'s, but this model is a {}; give --model {} and the flags "
          "of its shape",
          path, tensor.name, config.llama ? "GPT-2" : "Llama", config.llama ? "Llama" : "GPT-2",
          config.llama ? "gpt2" : "llama")};
  // The tensors that the file may contain: the parameters, or the tensors that are stacked in them.
  std::map<std::string, std::vector<std::int64_t>> wanted;
  for (const ParameterSpec& spec : plan.parameters()) {
    wanted[spec.name] = extents_of(spec.shape);
    for (const auto& [name, rows] : spec.stacked) wanted[name] = {rows, spec.shape[1]};
  }
  std::map<std::string, const SavedTensor*> found;
  for (const SavedTensor& tensor : saved.tensors()) {
    if (is_buffer(tensor.name, config.tied)) continue;
    const std::string name = with_prefix(tensor.name, config.llama.has_value());
    const auto shape = wanted.find(name);
    if (shape == wanted.end()) throw unfit(tensor.name, "is not a parameter of this model");
    if (tensor.dtype != "F32" && tensor.dtype != "BF16" && tensor.dtype != "F16")
      throw unfit(tensor.name, "is " + tensor.dtype + ", not F32, BF16 or F16");
    if (tensor.shape != shape->second)
      throw unfit(tensor.name,
                  fmt::format("has shape [{}], not [{}]", fmt::join(tensor.shape, ", "),
                              fmt::join(shape->second, ", ")));
    if (!found.emplace(name, &tensor).second)
      throw unfit(tensor.name, fmt::format("appears twice, with and without `{}.`",
                                           config.llama ? "model" : "transformer"));
  }
  std::map<std::string, SavedTensor> tensors;
  for (const ParameterSpec& spec : plan.parameters()) {
    const auto get = [&](const std::string& name) {
      const auto tensor = found.find(name);
      if (tensor == found.end()) throw unfit(name, "is missing");
      return tensor->second;
    };
    if (spec.stacked.empty() || found.contains(spec.name)) {
      tensors[spec.name] = *get(spec.name);
      for (const StackedTensor& part : spec.stacked)
        if (found.contains(part.name))
          throw unfit(part.name, "appears twice, alone and in " + spec.name);
      continue;
    }
    std::vector<const SavedTensor*> parts;
    for (const StackedTensor& part : spec.stacked) parts.push_back(get(part.name));
    tensors[spec.name] = stacked(spec, parts);
  }
  return tensors;
}

/// Checks the model against config.json for differences that a tensor's shape would not reveal, or
/// whose flag it would not reveal: heads, the MLP's width, and the constants of RMSNorm and of the
/// positions.
void check_config(const std::string& path, const GptConfig& config) {
  const ModelDescription described = described_model(path);
  const auto check = [&](const char* what, const char* flag, int theirs, int ours) {
    if (theirs != ours)
      throw UsageError{fmt::format("--load {}: its model has {} {}, but {} is {}; use {} {}", path,
                                   theirs, what, flag, ours, flag, theirs)};
  };
  check("heads", "--heads", described.heads.value_or(config.heads), config.heads);
  if (!described.llama || !config.llama) return;
  const LlamaConfig &theirs = *described.llama, &ours = *config.llama;
  if (theirs.kv_heads > 0)
    check("heads of keys and values", "--kv-heads", theirs.kv_heads, ours.kv_heads);
  check("columns in its MLP", "--mlp-width", theirs.mlp_width, ours.mlp_width);
  if (theirs.epsilon != ours.epsilon || theirs.theta != ours.theta ||
      theirs.scaling != ours.scaling)
    throw UsageError{fmt::format(
        "--load {}: its config.json has rms_norm_eps {} and rope_theta {}{}, but this model has {} "
        "and {}{}; load another model",
        path, theirs.epsilon, theirs.theta, theirs.scaling ? " with rope_scaling" : "",
        ours.epsilon, ours.theta, ours.scaling ? " with rope_scaling" : "")};
}

/// Throws UsageError if a tied model's file contains an lm_head.weight that differs from the token
/// table.
void check_tied(const std::string& path, SavedTensors& saved, const GptConfig& config,
                const SavedTensor& table) {
  const SavedTensor* head = saved.find("lm_head.weight");
  if (!config.tied || head == nullptr) return;
  // Compares a few rows at a time, because the table may be large.
  const Shape shape = token_table_spec(config).shape;
  const std::int64_t rows = std::max<std::int64_t>(1, (1 << 20) / shape[1]);
  const auto read = [&](const SavedTensor& tensor, std::int64_t first, std::int64_t count) {
    const Slice some = Slice{shape}.range(first * shape[1], count * shape[1]);
    std::vector<float> values(static_cast<std::size_t>(count * shape[1]));
    saved.read(tensor, some, values.data());
    return values;
  };
  bool same = head->shape == table.shape && head->dtype == table.dtype;
  for (std::int64_t row = 0; same && row < shape[0]; row += rows) {
    const std::int64_t count = std::min(rows, shape[0] - row);
    same = read(*head, row, count) == read(table, row, count);
  }
  if (!same)
    throw UsageError{fmt::format(
        "--load {}: its model has an untied head, lm_head.weight; leave out --tied", path)};
}

std::map<std::string, SavedTensor> checked(const std::string& path, SavedTensors& saved,
                                           const Plan& plan) {
  check_config(path, plan.model());
  auto tensors = matched(path, saved, plan);
  check_tied(path, saved, plan.model(), tensors.at(token_table_spec(plan.model()).name));
  return tensors;
}

/// Copies a slice of a tensor to `places`. Fills padding with zeros.
void read_to(Device device, SavedTensors& saved, const SavedTensor& tensor, const Slice& slice,
             const std::vector<View>& places) {
  std::vector<float> values(static_cast<std::size_t>(slice.local().elements()));
  saved.read(tensor, slice, values.data());
  for (const View& place : places) from_host(device, values, place);
}

}  // namespace

void load_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters) {
  SavedTensors saved{path};
  const auto tensors = checked(path, saved, plan);
  for (const Parameter* parameter : parameters)
    if (parameter->value)
      read_to(device, saved, tensors.at(parameter->name), parameter->slice,
              {parameter->value, parameter->master});
}

std::string check_checkpoint_fits(const std::string& path, const Plan& plan, bool values) {
  SavedTensors saved{path};
  checked(path, saved, plan);
  if (values) saved.check_values();
  return saved.state();
}

void check_unchanged(const std::string& path, const std::string& state) {
  const auto manifest =
      path.ends_with(".safetensors") ? std::nullopt : manifest_text(folder_to_load(path));
  if ((manifest ? SavedTensors::state_of(*manifest) : "") != state)
    throw RunError{fmt::format(
        "--load {}: another run replaced this checkpoint while it was being loaded; try again",
        path)};
}

std::optional<std::int64_t> trained_steps(const std::string& path, const Plan& plan) {
  SavedTensors saved{path};
  const bool sharded = saved.manifest() && saved.manifest()->is_sharded();
  if (saved.moments().empty() && !sharded) return {};
  std::size_t wanted = sharded ? 0 : 1;  // the older form stores the number of steps as a tensor
  const std::string remedy = sharded ? "or load the weights alone, from an --export of it"
                                     : "or load its model.safetensors alone";
  for (const ParameterSpec& spec : plan.parameters()) {
    if (spec.frozen) continue;
    if (saved.moments().empty())
      throw UsageError{fmt::format(
          "--load {}: its manifest.json has no tensors in 'moments', so there is nothing to train "
          "{} with; give the --freeze of that run, {}",
          path, spec.name, remedy)};
    wanted += 2;
    for (const char* moment : {".momentum", ".variance"})
      if (const SavedTensor* tensor = saved.find_moment(spec.name + moment);
          tensor == nullptr || tensor->dtype != "F32" ||
          tensor->shape != (sharded ? extents_of(spec.shape) : std::vector{spec.shape.elements()}))
        throw UsageError{
            fmt::format("--load {}: its optimizer has no {}{} of {} elements; give the --freeze of "
                        "that run, {}",
                        path, spec.name, moment, spec.shape.elements(), remedy)};
  }
  if (saved.moments().size() != wanted)
    throw UsageError{fmt::format(
        "--load {}: its optimizer trained other parameters too; give the --freeze of that run, {}",
        path, remedy)};
  return sharded ? saved.manifest()->step : saved.optimizer_steps();
}

void load_moments(const std::string& path, AdamW& optimizer) {
  SavedTensors saved{path};
  const auto steps = saved.optimizer_steps();
  if (!steps) return;
  for (const auto& [parameter, momentum, variance] : optimizer.moments()) {
    if (!momentum) continue;  // on the meta device
    for (const auto& [suffix, view] :
         {std::pair{".momentum", momentum}, std::pair{".variance", variance}})
      read_to(optimizer.device(), saved, *saved.find_moment(parameter->name + suffix),
              parameter->slice, {view});
  }
  optimizer.resume(*steps);
}

}  // namespace lockstep
