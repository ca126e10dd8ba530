#include "core/model/factory.h"

#include "core/model/attention.h"
#include "core/model/block.h"
#include "core/model/embedding.h"
#include "core/model/layernorm.h"
#include "core/model/linear.h"
#include "core/model/loss.h"
#include "core/model/mlp.h"

namespace lockstep {

std::unique_ptr<TokenLayer> LayerFactory::embedding(const LayerSite& site) const {
  return std::make_unique<Embedding>(site);
}
std::unique_ptr<Layer> LayerFactory::linear(const LayerSite& site, const LinearSpec& spec) const {
  return std::make_unique<Linear>(site, spec);
}
std::unique_ptr<Layer> LayerFactory::layernorm(const LayerSite& site, const ParameterSpec& gain,
                                               const ParameterSpec& bias) const {
  return std::make_unique<LayerNorm>(site, gain, bias);
}
std::unique_ptr<Layer> LayerFactory::attention_core(const LayerSite& site) const {
  return std::make_unique<AttentionCore>(site, site.config.heads);
}
std::unique_ptr<Layer> LayerFactory::mlp(const LayerSite& site) const {
  return std::make_unique<Mlp>(site, *this);
}
std::unique_ptr<Layer> LayerFactory::block(const LayerSite& site) const {
  return std::make_unique<Block>(site, *this);
}
std::unique_ptr<LossLayer> LayerFactory::loss(const LayerSite& site) const {
  return std::make_unique<CrossEntropy>(site);
}

}  // namespace lockstep
