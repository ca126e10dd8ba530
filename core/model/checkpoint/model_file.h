#pragma once

#include <optional>
#include <string>

#include "core/plan/gpt_config.h"

namespace lockstep {

/// The shape of a model, as far as config.json describes it.
struct ModelDescription {
  std::optional<int> layers, hidden, heads, sequence, vocabulary;
  std::optional<bool> tied;
  /// Set if the model is a Llama. Its kv_heads are 0 if the file specifies no heads.
  std::optional<LlamaConfig> llama{};
  /// The number of positions to which attention is limited in some layers. Lockstep's attention is
  /// not limited, so sequences may not be longer.
  std::optional<int> window{};
  bool operator==(const ModelDescription&) const = default;
};

/// Reads the config.json of a checkpoint's folder, as transformers writes it. Returns an empty
/// description if there is none. Throws UsageError, which names the file, the key and its value, if
/// it is malformed, or describes a model other than a GPT-2 or a Llama, or a variant of these that
/// computes something else.
ModelDescription described_model(const std::string& path);

/// Returns the text of config.json, with the fields that transformers' GPT2Config or LlamaConfig
/// needs.
std::string config_json(const GptConfig& config);

}  // namespace lockstep
