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

/// Maps each parameter's name to its tensor. Throws UsageError for the first tensor that is missing
/// or unknown, or that does not match the configuration.
std::map<std::string, const SavedTensor*> matched(const std::string& path,
                                                  const SavedTensors& saved, const Plan& plan) {
  const GptConfig& config = plan.model();
  const auto unfit = [&](const std::string& name, const std::string& what) {
    return UsageError{fmt::format(
        "--load {}: tensor {} {}; load a checkpoint of a model with --layers {} --hidden {} "
        "--sequence {} --vocab {} and {} head, or give the flags of this one's model",
        path, name, what, config.layers, config.hidden, config.sequence, config.vocabulary,
        config.tied ? "a tied" : "an untied")};
  };
  std::map<std::string, const SavedTensor*> tensors;
  const std::vector<ParameterSpec>& specs = plan.parameters();
  for (const SavedTensor& tensor : saved.tensors()) {
    if (is_buffer(tensor.name, config.tied)) continue;
    const std::string name = with_prefix(tensor.name);
    const auto spec = std::ranges::find(specs, name, &ParameterSpec::name);
    if (spec == specs.end()) throw unfit(tensor.name, "is not a parameter of this model");
    if (tensor.dtype != "F32") throw unfit(tensor.name, "is " + tensor.dtype + ", not F32");
    if (const auto wanted = extents_of(spec->shape); tensor.shape != wanted)
      throw unfit(tensor.name, fmt::format("has shape [{}], not [{}]",
                                           fmt::join(tensor.shape, ", "), fmt::join(wanted, ", ")));
    if (!tensors.emplace(name, &tensor).second)
      throw unfit(tensor.name, "appears twice, with and without `transformer.`");
  }
  for (const ParameterSpec& spec : specs)
    if (!tensors.contains(spec.name)) throw unfit(spec.name, "is missing");
  return tensors;
}

/// Checks the number of heads, which shapes do not reveal, against config.json.
void check_config(const std::string& path, const GptConfig& config) {
  const std::optional<int> heads = described_model(path).heads;
  if (heads && *heads != config.heads)
    throw UsageError{
        fmt::format("--load {}: its model has {} heads, but --heads is {}; use "
                    "--heads {}",
                    path, *heads, config.heads, *heads)};
}

/// Throws UsageError if a tied model's file has an lm_head.weight that differs from the token
/// table.
void check_tied(const std::string& path, SavedTensors& saved, const GptConfig& config,
                const SavedTensor& table) {
  const SavedTensor* head = saved.find("lm_head.weight");
  if (!config.tied || head == nullptr) return;
  // Compares some rows at a time: the table may be large.
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

std::map<std::string, const SavedTensor*> checked(const std::string& path, SavedTensors& saved,
                                                  const Plan& plan) {
  auto tensors = matched(path, saved, plan);
  check_config(path, plan.model());
  check_tied(path, saved, plan.model(), *tensors.at(token_table_spec(plan.model()).name));
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
      read_to(device, saved, *tensors.at(parameter->name), parameter->slice,
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
