#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/model/adamw.h"
#include "core/model/parameter.h"
#include "core/plan/plan.h"

namespace lockstep {

// A checkpoint is a folder with model.safetensors and config.json. Names and layout are those of
// Hugging Face's GPT2LMHeadModel.save_pretrained, so from_pretrained can read the folder. If the
// path ends in .safetensors, the checkpoint is that single file. A folder can also contain
// optimizer.safetensors, which holds NAME.momentum and NAME.variance, flattened, for every trained
// parameter, and `steps` (i32), the number of optimizer steps taken. Tensors are stored unsharded,
// however many ranks held them during training; each rank loads only its own parts. Lockstep adds a
// manifest (checkpoint_folder.h), which lists the files that belong together.

/// One moment of one parameter, unsharded.
struct NamedMoment {
  std::string name;  ///< "transformer.wte.weight.momentum"
  std::vector<float> values;
};
struct OptimizerState {
  std::vector<NamedMoment> moments;
  std::int64_t steps = 0;
};

/// Writes all parameters of the model as F32, and the optimizer's state if `path` is a folder. For
/// a 16-bit parameter, writes the optimizer's f32 master instead, if there is one. All parameters
/// must be on `device`, unsharded; throws std::invalid_argument if a parameter is missing. Writes
/// the checkpoint completely or not at all; throws UsageError or RunError if it cannot be written.
void save_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters,
                     const std::optional<OptimizerState>& optimizer = {});

/// Checks a checkpoint before the run. Throws UsageError if load_checkpoint() would, or if the
/// folder has an optimizer's state but no manifest. If `values` is true, also reads all files, and
/// throws UsageError if one of them differs from the manifest, or if a tensor has an element that
/// is not a finite number. Returns a text that identifies the state of the folder, for
/// check_unchanged().
std::string check_checkpoint_fits(const std::string& path, const Plan& plan, bool values = true);
/// Throws RunError unless the folder is still in the state that check_checkpoint_fits() found. Call
/// this after loading, because another run may replace the folder while its files are being read.
void check_unchanged(const std::string& path, const std::string& state);

/// Reads the checkpoint into `parameters`, which are on `device` and may be a whole model's
/// parameters, one stage's, or slices of either. The file must hold the whole model of `plan`. If a
/// tensor is missing, unknown, or of the wrong dtype or shape, or if config.json has a different
/// number of heads, throws UsageError naming the fault and reads nothing. Names may omit
/// `transformer.`. The buffers attn.bias and attn.masked_bias are ignored; so is the lm_head.weight
/// of a tied model, if it equals the token table. 16-bit parameters get the file's values, rounded;
/// their masters, if any, get the exact values. Reads nothing on the meta device.
void load_checkpoint(const std::string& path, const Plan& plan, Device device,
                     const std::vector<Parameter*>& parameters);

/// Returns the number of optimizer steps that the checkpoint records, or nothing if it has no
/// optimizer state. Throws UsageError if the checkpoint's moments do not belong to exactly the
/// parameters that `plan` trains.
std::optional<std::int64_t> trained_steps(const std::string& path, const Plan& plan);

/// Reads the moments of all parameters that `optimizer` updates, and sets its step count. Does
/// nothing if the checkpoint has no optimizer state.
void load_moments(const std::string& path, AdamW& optimizer);

}  // namespace lockstep
