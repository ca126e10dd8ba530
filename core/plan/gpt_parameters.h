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
  int sections = 1;
  std::int64_t grain = 1;
  bool operator==(const Cut&) const = default;
};

/// Describes a parameter, without storage: its name, shape, position in the whole model, and
/// initial values.
struct ParameterSpec {
  std::string name;  ///< Hugging Face's name for GPT-2
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

  bool is_cut_along(Axis axis) const {
    return std::ranges::any_of(cuts, [&](const Cut& cut) { return cut.axis == axis; });
  }
  /// Returns the unit that the parameter belongs to, numbered as in GptConfig::frozen.
  int unit() const;
  /// Returns the number of the block that the parameter belongs to; -1 outside the blocks.
  int layer() const;
  bool operator==(const ParameterSpec&) const = default;
};

/// The parameters of one block, in order.
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
  return name.starts_with("transformer.h.") ? unit() - 1 : -1;
}
/// Returns what a parameter does in the model, such as "qkv", for reports of the memory.
const char* role_of(const ParameterSpec& spec);

// GPT-2's initialisation (Radford 2019, as in Hugging Face's GPT2PreTrainedModel): weights from
// N(0, 0.02), with the two projections onto the residual stream scaled by 1/√(2L); biases 0; gains
// 1.
ParameterSpec token_table_spec(const GptConfig& config);     ///< (V, h)
ParameterSpec position_table_spec(const GptConfig& config);  ///< (s, h)
/// Matrices are (in, out), as in GPT-2.
ParameterSpec block_spec(const GptConfig& config, int layer, BlockSlot slot);
ParameterSpec final_gain_spec(const GptConfig& config);
ParameterSpec final_bias_spec(const GptConfig& config);
/// (V, h): the token table if tied, otherwise a separate parameter.
ParameterSpec head_spec(const GptConfig& config);

/// ParameterSpec::order of the token table, which a tied head also uses.
constexpr int token_table_order = 0;

/// Returns all parameters of the whole model, in order.
std::vector<ParameterSpec> gpt_parameters(const GptConfig& config);

}  // namespace lockstep
