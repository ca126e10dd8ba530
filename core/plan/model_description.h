#pragma once

#include <optional>

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

}  // namespace lockstep
