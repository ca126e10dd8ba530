#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/config.h"
#include "core/plan/mesh.h"
#include "kernels/view.h"

namespace lockstep {

/// Along which axis of the mesh one dimension of a parameter is divided; see DimensionCut.
struct Cut {
  Axis axis = Axis::tp;
  int dimension = 0;
  int sections = 1;
  std::int64_t grain = 1;
  bool operator==(const Cut&) const = default;
};

/// What a parameter is before it has storage: name, shape, place in the whole model, first values.
struct ParameterSpec {
  std::string name;  ///< Hugging Face's for GPT-2
  Shape shape;
  /// Where it comes in the whole model. Orders have gaps: a layer that a lesson puts in the place
  /// of another has room for more parameters (`block_order`). The gradient norm is added in this
  /// order, and the initial values are drawn by it.
  int order = 0;
  bool decay = false;  ///< matrices decay, biases and gains do not
  float mean = 0;      ///< initial values: mean + deviation * normal
  float deviation = 0;
  bool frozen = false;       ///< see GptConfig::frozen
  DType dtype = DType::f32;  ///< of value and gradient
  /// What a rank holds of it; without cuts, all. A builder of layers that are split says how.
  std::vector<Cut> cuts{};

  /// The unit that it belongs to, as GptConfig::frozen numbers them.
  int unit() const;
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

/// The order of a block's slot; slots 12 .. 4095 are free for layers of lessons, such as experts.
constexpr int orders_of_a_unit = 4096;
constexpr int block_order(int layer, int slot) {
  return (layer + 1) * orders_of_a_unit + slot;
}
inline int ParameterSpec::unit() const {
  return order / orders_of_a_unit;
}

// GPT-2's initialisation (Radford 2019, as Hugging Face's GPT2PreTrainedModel does it): N(0, 0.02),
// the two projections onto the residual stream scaled by 1/√(2L), biases 0, gains 1.
ParameterSpec token_table_spec(const GptConfig& config);     ///< (V, h)
ParameterSpec position_table_spec(const GptConfig& config);  ///< (s, h)
/// Matrices are (in, out), as GPT-2's own.
ParameterSpec block_spec(const GptConfig& config, int layer, BlockSlot slot);
ParameterSpec final_gain_spec(const GptConfig& config);
ParameterSpec final_bias_spec(const GptConfig& config);
/// (V, h): the token table where tied, else a parameter of its own.
ParameterSpec head_spec(const GptConfig& config);

/// ParameterSpec::order of the token table, which a tied head reads too.
constexpr int token_table_order = 0;

/// All parameters of the whole model, in order.
std::vector<ParameterSpec> gpt_parameters(const GptConfig& config);

}  // namespace lockstep
