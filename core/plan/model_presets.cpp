#include "core/plan/model_presets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace lockstep {

namespace {

/// GPT-3 and the GPTs of Megatron's papers.
///
/// - 13B, 175B: Brown 2020, table 2.1. The table gives the 13B a width of 5140, which its 40 heads
///   do not divide. With heads of 128 columns, the width is 5120, which others use.
/// - 175B, 530B, 1T: Narayanan 2021, tables 1 and 2.
/// - 22B: Korthikanti 2022, table 3.
///
/// The vocabulary is GPT-2's: 50,257 tokens, which Megatron pads to a multiple of 128 t for t
/// tensor-parallel ranks. With t = 8, that is 51,200. In the papers, the head is tied to the token
/// table. Here it is a separate matrix, as in the other presets, unless --tied is given. This adds
/// V h parameters (2.0 % of the 13B, 0.4 % of the 175B) and no FLOPs.
GptConfig gpt_3(int layers, int hidden, int heads) {
  return {
      .layers = layers, .hidden = hidden, .heads = heads, .sequence = 2048, .vocabulary = 51200};
}

/// Touvron 2023 ("Llama 2"). The sequence is in its table 1; all other sizes are those of the
/// published checkpoints.
GptConfig llama_2(int layers, int hidden, int heads, int kv_heads, int mlp_width) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .sequence = 4096,
          .vocabulary = 32000,
          .llama = LlamaConfig{.kv_heads = kv_heads, .mlp_width = mlp_width, .theta = 10000}};
}

/// Grattafiori 2024 ("The Llama 3 Herd of Models"), table 3, for all three, except the vocabulary,
/// which is that of the published checkpoints. The sequence length is that of pre-training before
/// its long-context phase.
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
      {"gpt3-13b", gpt_3(40, 5120, 40)},
      {"gpt-22b", gpt_3(48, 6144, 64)},
      {"gpt3-175b", gpt_3(96, 12288, 96)},
      {"gpt-530b", gpt_3(105, 20480, 128)},
      {"gpt-1t", gpt_3(128, 25600, 160)},
      {"llama2-7b", llama_2(32, 4096, 32, 32, 11008)},
      {"llama2-13b", llama_2(40, 5120, 40, 40, 13824)},
      {"llama2-70b", llama_2(80, 8192, 64, 8, 28672)},
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
