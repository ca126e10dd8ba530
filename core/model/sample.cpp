#include "core/model/sample.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "core/device/host_copy.h"
#include "core/model/data.h"
#include "core/model/philox.h"

namespace lockstep {

namespace {

View last_row(View rows) {
  const auto first = static_cast<std::size_t>((rows.shape.rows() - 1) * rows.row_stride);
  return View{static_cast<std::byte*>(rows.data) + first * size_of(rows.dtype),
              {rows.shape.last()},
              rows.dtype};
}

/// Returns the token at which the cumulative sum of softmax(logits / temperature) passes `uniform`.
std::int32_t draw(std::span<const float> logits, float temperature, double uniform) {
  const float highest = *std::ranges::max_element(logits);
  std::vector<double> running;
  double sum = 0;
  for (float logit : logits) {
    sum += std::exp(static_cast<double>(logit - highest) / static_cast<double>(temperature));
    running.push_back(sum);
  }
  const auto found = std::ranges::upper_bound(running, uniform * sum);
  return static_cast<std::int32_t>(
      std::min<std::ptrdiff_t>(found - running.begin(), std::ssize(running) - 1));
}

}  // namespace

std::vector<std::int32_t> generate(Gpt& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options) {
  if (prompt.empty()) throw std::invalid_argument{"generate: the prompt is empty"};
  if (model.device().memory.device() == DeviceKind::meta) return {};
  const RandomStream random{options.seed, Purpose::sampling, 0};
  std::vector<std::int32_t> text = prompt;
  const auto context = static_cast<std::size_t>(model.config().sequence);
  for (int i = 0; i < options.tokens; ++i) {
    const std::size_t length = std::min(text.size(), context);
    Tensor tokens{model.device().memory,
                  {1, static_cast<std::int64_t>(length)},
                  MemoryCategory::activations,
                  DType::i32};
    model.device().compute.write(text.data() + (text.size() - length), tokens);
    const Tensor logits = model.logits(tokens);
    const std::vector<float> last = to_host(model.device(), last_row(logits));
    const auto next =
        options.temperature > 0
            ? draw(last, options.temperature, random.uniform(static_cast<std::uint64_t>(i)))
            : static_cast<std::int32_t>(std::ranges::max_element(last) - last.begin());
    text.push_back(next);
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

std::string generate(Gpt& model, const std::string& prompt, const SampleOptions& options) {
  return Tokenizer::decode(generate(model, Tokenizer::encode(prompt), options));
}

}  // namespace lockstep
