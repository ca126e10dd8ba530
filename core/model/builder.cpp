#include "core/model/builder.h"

#include "core/model/attention.h"
#include "core/model/block.h"
#include "core/model/cross_entropy.h"
#include "core/model/embedding.h"
#include "core/model/layernorm.h"
#include "core/model/linear.h"
#include "core/model/mlp.h"
#include "core/model/rmsnorm.h"

namespace lockstep {

std::vector<ParameterSpec> ModelBuilder::parameters(const GptConfig& config) const {
  return gpt_parameters(config);
}
std::unique_ptr<TokenLayer> ModelBuilder::embedding(const LayerSite& site) const {
  return std::make_unique<Embedding>(site, positions(site));
}
std::unique_ptr<Layer> ModelBuilder::linear(const LayerSite& site, const LinearSpec& spec) const {
  return std::make_unique<Linear>(site, spec);
}
std::unique_ptr<Norm> ModelBuilder::norm(const LayerSite& site, const ParameterSpec& gain,
                                         const ParameterSpec& bias) const {
  if (bias.shape.rank() == 0) return std::make_unique<RmsNorm>(site, gain);
  return std::make_unique<LayerNorm>(site, gain, bias);
}
std::unique_ptr<Layer> ModelBuilder::attention_core(const LayerSite& site) const {
  return std::make_unique<AttentionCore>(site, heads(site));
}
std::unique_ptr<Layer> ModelBuilder::mlp(const LayerSite& site) const {
  return std::make_unique<Mlp>(site, *this);
}
std::unique_ptr<Layer> ModelBuilder::block(const LayerSite& site) const {
  return std::make_unique<Block>(site, *this);
}
std::unique_ptr<LossLayer> ModelBuilder::loss(const LayerSite& site) const {
  return std::make_unique<CrossEntropy>(site);
}

namespace {

const ModelBuilder plain;

}  // namespace

void set_model(Plan& plan, const GptConfig& config) {
  plan.set_model(config, plan.builder(), builder_of(plan).parameters(config));
}

void set_builder(Plan& plan, std::shared_ptr<const ModelBuilder> builder) {
  auto parameters = (builder ? *builder : plain).parameters(plan.model());
  plan.set_model(plan.model(), std::move(builder), std::move(parameters));
}

const ModelBuilder& builder_of(const Plan& plan) {
  return plan.builder() ? *plan.builder() : plain;
}

}  // namespace lockstep
