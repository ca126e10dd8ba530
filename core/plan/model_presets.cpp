#include "core/plan/model_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

namespace {

/// Grattafiori 2024 ("The Llama 3 Herd of Models"), table 3, for all three, except the vocabulary,
/// which is that of the published checkpoints. A sequence is that of the pre-training before its
/// long contexts.
GptConfig llama_3(int layers, int hidden, int heads, int mlp_width) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .sequence = 8192,
          .vocabulary = 128256,
          .llama = LlamaConfig{.kv_heads = 8, .mlp_width = mlp_width, .theta = 500000}};
}

const std::vector<std::pair<std::string, GptConfig>>& presets() {
  static const std::vector<std::pair<std::string, GptConfig>> all{
      {"gpt2", {}},
      {"llama", {.llama = LlamaConfig{.kv_heads = 0, .mlp_width = 0}}},
      {"llama3-8b", llama_3(32, 4096, 32, 14336)},
      {"llama3-70b", llama_3(80, 8192, 64, 28672)},
      {"llama3-405b", llama_3(126, 16384, 128, 53248)},
  };
  return all;
}

}  // namespace

std::vector<std::string> model_presets() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

GptConfig model_preset(const std::string& name) {
  for (const auto& [known, config] : presets())
    if (known == name) return config;
  throw UsageError{fmt::format("--model {}: no such model; use one of {}", name,
                               fmt::join(model_presets(), ", "))};
}

bool is_published(const std::string& name) {
  return name != "gpt2" && name != "llama";
}

void complete_llama(GptConfig& model, int tp) {
  LlamaConfig& llama = *model.llama;
  const std::int64_t multiple = std::lcm(std::int64_t{16}, tp);
  if (llama.mlp_width == 0)
    llama.mlp_width =
        static_cast<int>((std::int64_t{8} * model.hidden / 3 + multiple - 1) / multiple * multiple);
  if (llama.kv_heads == 0)
    llama.kv_heads = model.heads % (2 * tp) == 0 ? model.heads / 2 : model.heads;
}

}  // namespace lockstep
