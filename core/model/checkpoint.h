#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/parameter.h"
#include "core/plan/plan.h"

namespace lockstep {

// A checkpoint is a folder with model.safetensors and config.json, names and layout as Hugging
// Face's GPT2LMHeadModel.save_pretrained writes them, so that from_pretrained reads ours; or, where
// the path ends in .safetensors, that file alone. A folder can also have optimizer.safetensors:
// NAME.momentum and NAME.variance of every parameter that is trained, flat, and `steps` (i32), how
// many have been taken. All tensors are whole, however many ranks they came from: whoever loads
// them takes the parts that are his.

/// Writes all parameters of the model as F32 (of narrow ones the masters, where an optimizer has
/// them), which must be on `device` (std::invalid_argument where one is missing). Each file is
/// written whole or not at all. Throws UsageError where it can't be written.
void save_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters);

/// Throws UsageError where load_checkpoint would.
void check_checkpoint_fits(const std::string& path, const Plan& plan);

/// Reads the values of `parameters`, which are on `device`: all of a model's, those of one stage,
/// or slices of them. The file must be of the whole model
/// of `plan`: with a tensor missing, unknown, or of another dtype or shape, or another number of
/// heads in config.json, nothing is read and UsageError names it. Names may come without
/// `transformer.`; the buffers attn.bias and attn.masked_bias are ignored, and where tied
/// lm_head.weight, if it is the token table. Narrow values are the file's, rounded, and masters
/// that are there already the file's own. Nothing is read on the meta device.
void load_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters);

/// One moment of one parameter, whole.
struct NamedMoment {
  std::string name;  ///< "transformer.wte.weight.momentum"
  std::vector<float> values;
};

/// Adds what the optimizer knows to the checkpoint in `folder`. Throws UsageError where it can't be
/// written.
void save_moments(const std::string& folder, const std::vector<NamedMoment>& moments,
                  std::int64_t steps);

/// How many steps the checkpoint has been trained for; nothing where it is a model alone. Throws
/// UsageError unless its moments are of just the parameters that `plan` trains.
std::optional<std::int64_t> trained_steps(const std::string& path, const Plan& plan);

/// Reads the moments of all that `optimizer` updates, and goes on after the steps taken. Nothing
/// where the checkpoint is a model alone.
void load_moments(const std::string& path, AdamW& optimizer);

}  // namespace lockstep
