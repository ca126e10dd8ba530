#pragma once

#include <string>

#include "core/plan/model_description.h"

namespace lockstep {

/// Reads the config.json of a checkpoint's folder, as transformers writes it. Returns an empty
/// description if there is none. Throws UsageError, which names the file, the key and its value, if
/// it is malformed, or describes a model other than a GPT-2 or a Llama, or a variant of these that
/// computes something else.
ModelDescription described_model(const std::string& path);

/// Returns the text of config.json, with the fields that transformers' GPT2Config or LlamaConfig
/// needs.
std::string config_json(const GptConfig& config);

}  // namespace lockstep
