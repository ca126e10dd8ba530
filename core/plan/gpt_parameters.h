#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/gpt_config.h"
#include "core/plan/mesh.h"
#include "kernels/view.h"

namespace lockstep {

/// The mesh axis that divides one dimension of a parameter; see DimensionCut.
struct Cut {
  Axis axis = Axis::tp;
  int dimension = 0;
  std::vector<std::int64_t> sections{};
  std::int64_t grain = 1;
  bool operator==(const Cut&) const = default;
};

/// A tensor of a checkpoint that is a part of a parameter: some of its rows.
struct StackedTensor {
  std::string name;
  std::int64_t rows = 0;
  bool operator==(const StackedTensor&) const = default;
};

/// Describes a parameter, without storage: its name, shape, position in the whole model, and
/// initial values.
struct ParameterSpec {
  /// Hugging Face's name; a parameter with `stacked` tensors has a name in the same style.
  std::string name;
  Shape shape;
  /// Position in the whole model. Orders have gaps, so that a lesson can replace a layer with one
  /// that has more parameters (`block_order`). The order selects the random stream for the initial
  /// values and determines the sequence in which the gradient norm is summed.
  int order = 0;
  bool decay = false;  ///< true for matrices, false for biases and gains
  float mean = 0;      ///< initial values: mean + deviation * normal
  float deviation = 0;
  bool frozen = false;       ///< see GptConfig::frozen
  DType dtype = DType::f32;  ///< dtype of value and gradient
  /// The cuts that determine a rank's part; without cuts, a rank holds the whole parameter. Set by
  /// the builder of split layers.
  std::vector<Cut> cuts{};
  /// The tensors that Hugging Face stores in place of this one, which consists of their rows, one
  /// tensor after another: q, k and v, for example, so that one product computes all three. Usually
  /// empty.
  std::vector<StackedTensor> stacked{};

  bool is_cut_along(Axis axis) const {
    return std::ranges::any_of(cuts, [&](const Cut& cut) { return cut.axis == axis; });
  }
  /// Returns the unit that the parameter belongs to, numbered as in GptConfig::frozen.
  int unit() const;
  /// Returns the number of the block that the parameter belongs to; -1 outside the blocks.
  int layer() const;
  bool operator==(const ParameterSpec&) const = default;
};

/// The parameters of one block, in order, named by their role. In a Llama, the norms are RMSNorms,
/// `fc` computes SwiGLU's gate and factor, and no layer has a bias.
enum class BlockSlot {
  ln_1_weight,
  ln_1_bias,
  qkv_weight,
  qkv_bias,
  projection_weight,
  projection_bias,
  ln_2_weight,
  ln_2_bias,
  fc_weight,
  fc_bias,
  mlp_projection_weight,
  mlp_projection_bias,
};
constexpr int block_slots = 12;

/// Returns the ParameterSpec::order of a slot in a block. Slots 12 .. 4095 are free for layers that
/// lessons add, such as experts.
constexpr int orders_of_a_unit = 4096;
constexpr int block_order(int layer, int slot) {
  return (layer + 1) * orders_of_a_unit + slot;
}
inline int ParameterSpec::unit() const {
  return order / orders_of_a_unit;
}
inline int ParameterSpec::layer() const {
  return name.starts_with("transformer.h.") || name.starts_with("model.layers.") ? unit() - 1 : -1;
}
/// Returns a parameter's role in the model, such as "qkv", for memory reports.
const char* role_of(const ParameterSpec& spec);

// The initialisation is Hugging Face's: weights from N(0, 0.02), gains 1, biases 0. In GPT-2
// (Radford 2019), the two projections onto the residual stream are scaled by 1/√(2L).
ParameterSpec token_table_spec(const GptConfig& config);     ///< (V, h)
ParameterSpec position_table_spec(const GptConfig& config);  ///< (s, h), in GPT-2 only
/// Matrices of blocks are (in, out) in GPT-2, and (out, in) in Llama. A parameter that the model
/// lacks has an empty shape.
ParameterSpec block_spec(const GptConfig& config, int layer, BlockSlot slot);
ParameterSpec final_gain_spec(const GptConfig& config);
/// Has an empty shape if the model lacks it.
ParameterSpec final_bias_spec(const GptConfig& config);
/// (V, h): the token table if tied, otherwise a separate parameter.
ParameterSpec head_spec(const GptConfig& config);

/// ParameterSpec::order of the token table, which a tied head also uses.
constexpr int token_table_order = 0;

/// Returns all parameters of the whole model, in order.
std::vector<ParameterSpec> gpt_parameters(const GptConfig& config);

}  // namespace lockstep
