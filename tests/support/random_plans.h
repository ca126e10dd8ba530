#pragma once

#include <memory>
#include <random>
#include <vector>

#include "core/model/builder.h"
#include "core/plan/plan.h"

namespace lockstep::testing {

/// GPT-2, cut as in tensor parallelism (Shoeybi 2019), with experts instead of a single MLP in each
/// block. Provides only a table of parameters, not the layers.
class SplitModel : public ModelBuilder {
 public:
  explicit SplitModel(int experts) : experts_(experts) {}

  std::vector<ParameterSpec> parameters(const GptConfig& config) const override {
    std::vector<ParameterSpec> specs;
    const std::int64_t head = config.hidden / config.heads, h = config.hidden;
    for (ParameterSpec spec : gpt_parameters(config)) {
      const auto ends = [&](const char* end) { return spec.name.ends_with(end); };
      if (ends("attn.c_attn.weight"))
        spec.cuts = {{.dimension = 1, .sections = {h, h, h}, .grain = head}};
      else if (ends("attn.c_attn.bias"))
        spec.cuts = {{.dimension = 0, .sections = {h, h, h}, .grain = head}};
      else if (ends("attn.c_proj.weight"))
        spec.cuts = {{.dimension = 0, .grain = head}};
      else if (ends("mlp.c_fc.weight"))
        spec.cuts = {{.dimension = 1}};
      else if (ends("mlp.c_fc.bias") || ends("mlp.c_proj.weight") || ends("wte.weight") ||
               spec.name == "lm_head.weight")
        spec.cuts = {{.dimension = 0}};
      specs.push_back(spec);
      if (experts_ > 0 && ends("mlp.c_proj.bias")) {
        const int block = spec.unit() - 1;
        ParameterSpec expert{.name = "transformer.h." + std::to_string(block) + ".experts",
                             .shape = {experts_, h, 2 * h},
                             .order = block_order(block, block_slots),
                             .deviation = 0.02F,
                             .frozen = spec.frozen,
                             .dtype = spec.dtype,
                             .cuts = {{.axis = Axis::ep, .dimension = 0}}};
        specs.push_back(expert);
      }
    }
    return specs;
  }

 private:
  int experts_;
};

/// Returns a Plan::split for this number of blocks; empty in half of the cases.
inline std::vector<int> random_split(std::mt19937& random, int layers, int stages) {
  if (random() % 2 == 0) return {};
  std::vector<int> split(static_cast<std::size_t>(stages), 1);
  for (int block = stages; block < layers; ++block) ++split[random() % split.size()];
  return split;
}

/// Returns a valid plan for up to 48 ranks.
inline Plan random_plan(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int tp = 1 + below(3), cp = 1 + below(2), dp = 1 + below(4), pp = 1 + below(3);
  const char* orders[] = {"tp,cp,dp,pp", "pp,dp,cp,tp", "dp,tp,pp,cp", "cp,dp,tp,pp"};
  Mesh mesh{tp * cp * dp * pp, {tp, cp, dp, pp}, orders[below(4)]};
  const int line = dp * cp;
  int ep = 1 + below(line);
  while (line % ep != 0) --ep;
  mesh = mesh.with_experts(ep);

  GptConfig model;
  model.heads = tp * (1 + below(2));
  model.hidden = model.heads * (2 + below(3));
  const int chunks = 1 + below(2);  // stages per rank
  model.layers = pp * chunks + below(3);
  model.sequence = 2 * cp * (1 + below(3));
  model.vocabulary = 17 + below(20);
  model.tied = below(2) == 0;
  if (below(3) == 0) model.frozen = {below(model.layers + 1)};
  if (below(4) == 0) model.dtype = DType::bf16;
  Plan plan{model, mesh};
  plan.rank_of_stage.clear();
  const bool v = below(2) == 0;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int i = 0; i < pp; ++i) plan.rank_of_stage.push_back(v && chunk % 2 == 1 ? pp - 1 - i : i);
  plan.split = random_split(random, model.layers, plan.stages());
  plan.batch.microbatches = 1 + below(3);
  plan.batch.sequences = dp * plan.batch.microbatches * (1 + below(2));
  plan.batch.context = below(2) == 0 ? ContextLayout::contiguous : ContextLayout::zigzag;
  plan.seed = random();
  set_model(plan, model);
  set_builder(plan, std::make_shared<const SplitModel>(below(2) * ep * (1 + below(2))));
  plan.validate();
  return plan;
}

}  // namespace lockstep::testing
