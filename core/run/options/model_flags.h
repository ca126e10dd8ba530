#pragma once

#include <optional>
#include <string>

#include "core/plan/model_description.h"

namespace lockstep {

struct CommandLine;

/// The flags that shape a model: --model, --layers, ..., --tied.
struct ModelFlags {
  std::string name = "gpt2";
  GptConfig model;
  std::optional<int> kv_heads, mlp_width;

  /// Adds the flags; this object must live until they are parsed.
  void add_to(CommandLine& line);
  /// Gives `model` the shape of `saved`, the checkpoint `load`, or, if that is empty, of --model;
  /// flags that `line` was given take precedence. Throws UsageError for flags that the model does
  /// not support.
  void adopt(CommandLine& line, const std::string& load, const ModelDescription& saved);
};

}  // namespace lockstep
