#pragma once

#include <string>
#include <vector>

#include "core/plan/gpt_config.h"

namespace lockstep {

/// The models that --model names. The first is the default.
std::vector<std::string> model_presets();

/// Returns the model of that name: "gpt2" and "llama" are toys of the lessons' size, and the others
/// are published models. In "llama", kv_heads and mlp_width are 0: they follow from the flags
/// (complete_llama). Throws UsageError for any other name.
GptConfig model_preset(const std::string& name);

/// Returns whether that model is a published one, whose shape is known without any flag.
bool is_published(const std::string& name);

/// Sets the fields of `model.llama` that are 0: f to 8 h / 3, so that SwiGLU's three matrices have
/// about as many elements as GPT-2's two, rounded up to a multiple of 16 and of `tp`, the number of
/// tensor-parallel ranks; and g to half of the heads if `tp` divides that, or else to all of them.
void complete_llama(GptConfig& model, int tp);

}  // namespace lockstep
