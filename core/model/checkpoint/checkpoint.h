#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/parameter.h"
#include "core/plan/plan.h"

namespace lockstep {

// Loading a checkpoint of any form (saved_tensors.h) on any mesh. Each rank reads the parts that
// its slices need. sharded_checkpoint.h saves and exports.

/// Throws UsageError if load_checkpoint() would, or if the folder has an optimizer's state but no
/// manifest. If `values` is true, also reads all files, and throws UsageError if one of them
/// differs from the manifest, or if a tensor has an element that is not a finite number. Returns a
/// text that identifies the state of the folder, for check_unchanged().
std::string check_checkpoint_fits(const std::string& path, const Plan& plan, bool values = true);
/// Throws RunError unless the folder is still in the state that check_checkpoint_fits() found. Call
/// this after loading, because another run may replace the folder while its files are being read.
void check_unchanged(const std::string& path, const std::string& state);

/// Reads the checkpoint into `parameters`, which are on `device` and may be a whole model's
/// parameters, one stage's, or slices of either. The checkpoint must hold the whole model of
/// `plan`. If a tensor is missing, unknown, or of the wrong dtype or shape, or if config.json
/// describes another model, throws UsageError naming the fault and reads nothing. Names may omit
/// `transformer.`, or `model.` in a Llama. A parameter with ParameterSpec::stacked tensors may be
/// stored as one tensor or as these. The buffers attn.bias, attn.masked_bias and
/// rotary_emb.inv_freq are ignored; so is the lm_head.weight of a tied model, if it equals the
/// token table. 16-bit parameters get the file's values, rounded; master weights, if there are any,
/// get the exact values. Reads nothing on the meta device.
void load_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters);

/// Returns the number of steps that the checkpoint was trained for, or nothing if it has no
/// optimizer state. Throws UsageError if the checkpoint's moments do not belong to exactly the
/// parameters that `plan` trains.
std::optional<std::int64_t> trained_steps(const std::string& path, const Plan& plan);

/// Reads the moments of all parameters that `optimizer` updates, and sets its step count. Does
/// nothing if the checkpoint has no optimizer state.
void load_moments(const std::string& path, AdamW& optimizer);

}  // namespace lockstep
