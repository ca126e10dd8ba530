#include "core/model/head.h"

namespace lockstep {

Head::Head(const LayerSite& site, const LayerFactory& factory, Parameter* tied,
           View tied_gradient) {
  add(factory.layernorm(site, final_gain_spec(site.config), final_bias_spec(site.config)));
  add(factory.linear(site, {.weight = head_spec(site.config),
                            .bias = {},
                            .in = site.config.hidden,
                            .out = site.config.vocabulary,
                            .layout = WeightLayout::out_in,
                            .split = LinearSplit::column,
                            .tied = tied,
                            .tied_gradient = tied_gradient}));
}

}  // namespace lockstep
