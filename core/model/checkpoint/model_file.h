#pragma once

#include <optional>
#include <string>

#include "core/plan/gpt_config.h"

namespace lockstep {

/// The shape of a model, as far as config.json describes it.
struct ModelDescription {
  std::optional<int> layers, hidden, heads, sequence, vocabulary;
  std::optional<bool> tied;
  bool operator==(const ModelDescription&) const = default;
};

/// Reads the config.json of a checkpoint's folder, as transformers writes it. Returns an empty
/// description if there is none. Throws UsageError, which names the file, the key and its value, if
/// it is malformed, or describes a variant of GPT-2 that computes something else.
ModelDescription described_model(const std::string& path);

/// Returns the text of config.json, with the fields that transformers' GPT2Config needs.
std::string config_json(const GptConfig& config);

}  // namespace lockstep
