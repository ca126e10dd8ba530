#include "core/run/options/memory_needed.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/available_memory.h"
#include "core/base/error.h"
#include "core/plan/footprint.h"

namespace lockstep {

double least_memory(const Options& options) {
  const Plan& plan = options.plan;
  const GptConfig& config = plan.model();
  const auto width = static_cast<double>(size_of(config.dtype));
  // AdamW's two moments, and a master copy of 16-bit weights, are f32.
  const double optimizer = is_narrow(config.dtype) ? 12 : 8;
  double bytes = 0;
  for (const ParameterSpec& spec : plan.parameters())
    bytes += static_cast<double>(spec.shape.elements()) *
             (width + (spec.frozen ? 0 : width + optimizer));
  const int most_microbatches = std::ranges::max(options.microbatches());
  const double tokens =
      static_cast<double>(config.sequence) * std::max(1, plan.microbatch_size(most_microbatches)) /
      (plan.mesh.size(Axis::cp) *
       plan.mesh.size(Axis::tp));  // context and tensor parallelism divide activations
  const double per_token =
      static_cast<double>(config.saved_per_block()) + 2.0 * config.hidden + config.vocabulary;
  return bytes + width * tokens * per_token;
}

void check_memory(const Options& options, std::int64_t available) {
  const GptConfig& model = options.plan.model();
  if (options.platform.device != "cpu" || options.platform.hosts.any()) return;
  const double needed = least_memory(options);
  if (needed <= static_cast<double>(available)) return;
  throw UsageError(fmt::format(
      "--layers {} --hidden {} --vocab {}: training this model takes at least {} (16 bytes per "
      "parameter in f32, and activations), but only {} are available here; use a smaller model, or "
      "--device meta, which takes no memory",
      model.layers, model.hidden, model.vocabulary, text_of_bytes(needed),
      text_of_bytes(static_cast<double>(available))));
}

}  // namespace lockstep
