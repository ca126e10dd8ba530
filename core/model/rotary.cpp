#include "core/model/rotary.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace lockstep {

namespace {

/// Returns a frequency, stretched as in transformers' modeling_rope_utils ("llama3").
float scaled(float frequency, const RotaryScaling& by) {
  const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
  const double longest = by.original_sequence / by.low_frequency_factor;
  const double shortest = by.original_sequence / by.high_frequency_factor;
  if (wavelength < shortest) return frequency;
  const double divided = static_cast<double>(frequency) / by.factor;
  if (wavelength > longest) return static_cast<float>(divided);
  const double share = (by.original_sequence / wavelength - by.low_frequency_factor) /
                       (by.high_frequency_factor - by.low_frequency_factor);
  return static_cast<float>((1 - share) * divided + share * static_cast<double>(frequency));
}

}  // namespace

std::vector<float> rotary_frequencies(const GptConfig& config) {
  const int d = config.head_width();
  std::vector<float> frequencies;
  for (int i = 0; i < d / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(d);
    const float frequency = 1.0F / std::pow(static_cast<float>(config.llama->theta), exponent);
    frequencies.push_back(config.llama->scaling ? scaled(frequency, *config.llama->scaling)
                                                : frequency);
  }
  return frequencies;
}

RotaryTable::RotaryTable(const GptConfig& config, Device device)
    : view_{nullptr, {config.sequence, config.head_width()}, DType::f32} {
  if (device.memory.device() == DeviceKind::meta) return;
  const std::vector<float> frequencies = rotary_frequencies(config);
  host_.reserve(static_cast<std::size_t>(view_.elements()));
  for (int position = 0; position < config.sequence; ++position)
    for (double (*of)(double) : {static_cast<double (*)(double)>(std::cos), std::sin})
      for (const float frequency : frequencies) {
        const float angle = static_cast<float>(position) * frequency;
        host_.push_back(static_cast<float>(of(static_cast<double>(angle))));
      }
  view_.data = host_.data();
  Gpu* gpu = device.compute.gpu();
  if (gpu == nullptr) return;
  const Queue queue = device.compute.queue();
  view_.data = gpu->allocate(view_.bytes(), queue);
  copy_ = {view_.data, [gpu, queue](void* data) { gpu->release(data, queue); }};
  device.compute.write(host_.data(), view_);
}

Tensor Rotary::turned(Tensor qkv, const Stash& stash, bool inverse) const {
  const View positions = stash.microbatch().positions;
  if (positions.shape.rank() == 0)
    throw std::logic_error{"Rotary: the stash's microbatch has no positions"};
  if (!qkv.sole()) {
    Tensor copy = ops_.activation(qkv.shape(), "qkv");
    ops_.copy(qkv, copy);
    qkv = std::move(copy);
  }
  const int heads = heads_.queries + heads_.keys;
  const std::int64_t d = qkv.shape().last() / (heads + heads_.keys);
  ops_.rotary(qkv.view().columns(0, heads * d), heads, table_->view(), positions, inverse);
  return qkv;
}

}  // namespace lockstep
