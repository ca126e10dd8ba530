#include "core/plan/gpt_parameters.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace lockstep {

namespace {

constexpr float deviation = 0.02F;

ParameterSpec matrix(std::string name, int order, std::int64_t rows, std::int64_t columns) {
  return {.name = std::move(name),
          .shape = {rows, columns},
          .order = order,
          .decay = true,
          .deviation = deviation};
}

ParameterSpec vector(std::string name, int order, std::int64_t length, float mean) {
  return {.name = std::move(name), .shape = {length}, .order = order, .mean = mean};
}

ParameterSpec of_unit(int unit, const GptConfig& config, ParameterSpec spec) {
  spec.frozen = config.is_frozen(unit);
  spec.dtype = config.dtype;
  return spec;
}

}  // namespace

ParameterSpec token_table_spec(const GptConfig& config) {
  return of_unit(0, config,
                 matrix(config.llama ? "model.embed_tokens.weight" : "transformer.wte.weight",
                        token_table_order, config.vocabulary, config.hidden));
}

ParameterSpec position_table_spec(const GptConfig& config) {
  return of_unit(0, config, matrix("transformer.wpe.weight", 1, config.sequence, config.hidden));
}

namespace {

ParameterSpec llama_slot(const GptConfig& config, int layer, BlockSlot slot) {
  const std::int64_t h = config.hidden, f = config.mlp_width(), kv = config.kv_width();
  const int order = block_order(layer, static_cast<int>(slot));
  const auto name = [&](const char* part) {
    return fmt::format("model.layers.{}.{}.weight", layer, part);
  };
  const auto stacked = [&](const char* whole, const std::vector<StackedTensor>& parts) {
    std::int64_t rows = 0;
    for (const StackedTensor& part : parts) rows += part.rows;
    ParameterSpec spec = matrix(name(whole), order, rows, h);
    spec.stacked = parts;
    return spec;
  };
  switch (slot) {
    case BlockSlot::ln_1_weight:
      return vector(name("input_layernorm"), order, h, 1);
    case BlockSlot::qkv_weight:
      return stacked("self_attn.qkv_proj", {{name("self_attn.q_proj"), h},
                                            {name("self_attn.k_proj"), kv},
                                            {name("self_attn.v_proj"), kv}});
    case BlockSlot::projection_weight:
      return matrix(name("self_attn.o_proj"), order, h, h);
    case BlockSlot::ln_2_weight:
      return vector(name("post_attention_layernorm"), order, h, 1);
    case BlockSlot::fc_weight:
      return stacked("mlp.gate_up_proj", {{name("mlp.gate_proj"), f}, {name("mlp.up_proj"), f}});
    case BlockSlot::mlp_projection_weight:
      return matrix(name("mlp.down_proj"), order, h, f);
    default:
      return {};  // a bias
  }
}

ParameterSpec gpt2_slot(const GptConfig& config, int layer, BlockSlot slot) {
  const std::int64_t h = config.hidden;
  const int order = block_order(layer, static_cast<int>(slot));
  const auto name = [&](const char* part) {
    return fmt::format("transformer.h.{}.{}", layer, part);
  };
  // Scales a projection onto the residual stream, which sums 2L such projections.
  const auto residual = [&](ParameterSpec spec) {
    spec.deviation = deviation / std::sqrt(2.0F * static_cast<float>(config.layers));
    return spec;
  };
  switch (slot) {
    case BlockSlot::ln_1_weight:
      return vector(name("ln_1.weight"), order, h, 1);
    case BlockSlot::ln_1_bias:
      return vector(name("ln_1.bias"), order, h, 0);
    case BlockSlot::qkv_weight:
      return matrix(name("attn.c_attn.weight"), order, h, 3 * h);
    case BlockSlot::qkv_bias:
      return vector(name("attn.c_attn.bias"), order, 3 * h, 0);
    case BlockSlot::projection_weight:
      return residual(matrix(name("attn.c_proj.weight"), order, h, h));
    case BlockSlot::projection_bias:
      return vector(name("attn.c_proj.bias"), order, h, 0);
    case BlockSlot::ln_2_weight:
      return vector(name("ln_2.weight"), order, h, 1);
    case BlockSlot::ln_2_bias:
      return vector(name("ln_2.bias"), order, h, 0);
    case BlockSlot::fc_weight:
      return matrix(name("mlp.c_fc.weight"), order, h, 4 * h);
    case BlockSlot::fc_bias:
      return vector(name("mlp.c_fc.bias"), order, 4 * h, 0);
    case BlockSlot::mlp_projection_weight:
      return residual(matrix(name("mlp.c_proj.weight"), order, 4 * h, h));
    case BlockSlot::mlp_projection_bias:
      break;
  }
  return vector(name("mlp.c_proj.bias"), order, h, 0);
}

}  // namespace

ParameterSpec block_spec(const GptConfig& config, int layer, BlockSlot slot) {
  return of_unit(layer + 1, config,
                 config.llama ? llama_slot(config, layer, slot) : gpt2_slot(config, layer, slot));
}

ParameterSpec final_gain_spec(const GptConfig& config) {
  return of_unit(config.layers + 1, config,
                 vector(config.llama ? "model.norm.weight" : "transformer.ln_f.weight",
                        block_order(config.layers, 0), config.hidden, 1));
}

ParameterSpec final_bias_spec(const GptConfig& config) {
  if (config.llama) return {};
  return of_unit(config.layers + 1, config,
                 vector("transformer.ln_f.bias", block_order(config.layers, 1), config.hidden, 0));
}

ParameterSpec head_spec(const GptConfig& config) {
  if (config.tied) return token_table_spec(config);
  return of_unit(
      config.layers + 1, config,
      matrix("lm_head.weight", block_order(config.layers, 2), config.vocabulary, config.hidden));
}

const char* role_of(const ParameterSpec& spec) {
  for (const auto& [part, role] : {std::pair{".attn.c_attn.", "qkv"},
                                   {".attn.c_proj.", "attention projection"},
                                   {".mlp.c_fc.", "MLP, h to 4h"},
                                   {".mlp.c_proj.", "MLP, 4h to h"},
                                   {".self_attn.qkv_proj.", "qkv"},
                                   {".self_attn.o_proj.", "attention projection"},
                                   {".mlp.gate_up_proj.", "MLP, gate and up (h to 2f)"},
                                   {".mlp.down_proj.", "MLP, f to h"},
                                   {".moe.router.", "router"},
                                   {".moe.experts.", "experts"},
                                   {".ln_", "layernorms"},
                                   {"norm.", "RMSNorms"},
                                   {".wte.", "token table"},
                                   {".embed_tokens.", "token table"},
                                   {".wpe.", "position table"},
                                   {"lm_head.", "head"}})
    if (spec.name.find(part) != std::string::npos) return role;
  return "others";
}

std::vector<ParameterSpec> gpt_parameters(const GptConfig& config) {
  std::vector<ParameterSpec> specs{token_table_spec(config)};
  const auto add = [&](ParameterSpec spec) {
    if (spec.shape.rank() > 0) specs.push_back(std::move(spec));
  };
  if (!config.llama) add(position_table_spec(config));
  for (int layer = 0; layer < config.layers; ++layer)
    for (int slot = 0; slot < block_slots; ++slot)
      add(block_spec(config, layer, static_cast<BlockSlot>(slot)));
  add(final_gain_spec(config));
  add(final_bias_spec(config));
  if (!config.tied) add(head_spec(config));
  return specs;
}

}  // namespace lockstep
