#pragma once

#include <memory>
#include <vector>

#include "core/model/builder.h"
#include "core/model/ops.h"

namespace lockstep {

/// The angles by which rotary positions turn pairs of columns (Su 2021): at position p, pair i of a
/// head of d columns turns by p θ^(-2i/d). Llama 3.1 divides the lowest frequencies by a factor,
/// and some frequencies above them by less (RotaryScaling). The table holds constants, which, like
/// the tokens of a batch, are not charged to Memory.
class RotaryTable {
 public:
  /// `device` must outlive the table.
  RotaryTable(const GptConfig& config, Device device);

  /// (s, d) f32: the cosines of a position's d/2 angles, and then their sines.
  View view() const { return view_; }

 private:
  std::vector<float> host_;
  std::shared_ptr<void> copy_;  ///< on a GPU
  View view_;
};

/// Returns the frequencies θ^(-2i/d) of a head's pairs of columns, in radians per position, in f32
/// as in transformers.
std::vector<float> rotary_frequencies(const GptConfig& config);

/// Turns each pair of columns of the queries and keys by the angle of the token's position, so that
/// q · k depends on their positions only through the distance between them. The values stay
/// unchanged. Column i of a head is paired with column i + d/2, as in transformers. Works in place
/// and keeps nothing: the backward pass turns the gradients back.
///
/// The positions come with the tokens (Microbatch::positions). A rank that holds only a part of
/// each sequence therefore needs nothing else.
class Rotary : public Layer {
 public:
  Rotary(const LayerSite& site, Heads heads)
      : ops_(site.device, site.layer, site.config.dtype), heads_(heads), table_(site.rotary) {}

  Tensor forward(Tensor qkv, Stash& stash) override {
    return turned(std::move(qkv), stash, /*inverse=*/false);
  }
  Tensor backward_input(Tensor dqkv, Stash& stash) override {
    return turned(std::move(dqkv), stash, /*inverse=*/true);
  }
  void backward_weight(Stash&) override {}

 private:
  Tensor turned(Tensor qkv, const Stash& stash, bool inverse) const;

  Ops ops_;
  Heads heads_;
  std::shared_ptr<const RotaryTable> table_;
};

}  // namespace lockstep
