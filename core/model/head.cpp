#include "core/model/head.h"

#include "core/model/norm.h"

namespace lockstep {

Head::Head(const LayerSite& site, const ModelBuilder& builder, Parameter* tied,
           View tied_gradient) {
  add(builder.norm(site, final_gain_spec(site.config), final_bias_spec(site.config)));
  add(builder.linear(site, {.weight = head_spec(site.config),
                            .bias = {},
                            .in = site.config.hidden,
                            .out = site.config.vocabulary,
                            .layout = WeightLayout::out_in,
                            .aligned = true,  // V may be odd, as GPT-2's is
                            .split = LinearSplit::column,
                            .output = "logits",
                            .tied = tied,
                            .tied_gradient = tied_gradient}));
}

}  // namespace lockstep
