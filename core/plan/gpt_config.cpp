#include "core/plan/gpt_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/plan/divisions.h"
#include "core/plan/gpt_parameters.h"

namespace lockstep {

namespace {

void at_least_one(const char* flag, int value, const char* what) {
  if (value < 1)
    throw UsageError{fmt::format("{} {}: a model needs at least one {}; give a positive number",
                                 flag, value, what)};
}

}  // namespace

void GptConfig::validate() const {
  at_least_one("--layers", layers, "layer");
  at_least_one("--hidden", hidden, "hidden unit");
  at_least_one("--heads", heads, "head");
  at_least_one("--sequence", sequence, "position");
  at_least_one("--vocab", vocabulary, "token");
  constexpr int most_layers = 1 << 16;
  constexpr double most_parameters = 1e17;  // larger byte counts do not fit into 64 bits
  if (llama) {
    at_least_one("--kv-heads", llama->kv_heads, "head of keys");
    at_least_one("--mlp-width", llama->mlp_width, "column");
  }
  const double h = hidden;
  constexpr int widest = 1 << 28;  // the largest value that a flag accepts, so that sums of widths
                                   // fit into an int
  if (layers > most_layers || heads > widest || (llama && llama->mlp_width > widest) ||
      (layers * (4.0 * h + 3.0 * std::max(mlp_width(), hidden)) + sequence + 2.0 * vocabulary) * h >
          most_parameters)
    throw UsageError{fmt::format(
        "--layers {} --hidden {} --vocab {}: this model is too large to count; use at most {} "
        "layers and {:.0e} parameters",
        layers, hidden, vocabulary, most_layers, most_parameters)};
  check_division({.flags = fmt::format("--heads {} with --hidden {}", heads, hidden),
                  .whole = hidden,
                  .items = "hidden units",
                  .by = heads,
                  .into = fmt::format("{} equal heads", heads)},
                 [&] {
                   std::vector<std::string> ways = nearest_divisors("--heads", hidden, heads);
                   const int of = llama ? 2 * heads : heads;  // rotary positions turn pairs
                   ways.push_back(nearest_multiples("--hidden", of, hidden).back());
                   return ways;
                 });
  if (llama) {
    check_division({.flags = fmt::format("--kv-heads {} with --heads {}", llama->kv_heads, heads),
                    .whole = heads,
                    .items = "heads",
                    .by = llama->kv_heads,
                    .into = fmt::format("{} equal groups", llama->kv_heads)},
                   [&] { return nearest_divisors("--kv-heads", heads, llama->kv_heads); });
    if (head_width() % 2 != 0)
      throw UsageError{
          fmt::format("--heads {} with --hidden {}: rotary positions turn pairs of columns, so a "
                      "head needs an even number of them, not {}; use --hidden {}",
                      heads, hidden, head_width(), hidden + heads)};
  }
  if (trained_count() == 0)
    throw UsageError{"--freeze: every unit would be frozen; leave at least one to train"};
}

std::int64_t GptConfig::parameter_count() const {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : gpt_parameters(*this)) count += spec.shape.elements();
  return count;
}

std::int64_t GptConfig::trained_count() const {
  std::int64_t count = 0;
  for (const ParameterSpec& spec : gpt_parameters(*this))
    if (!spec.frozen) count += spec.shape.elements();
  return count;
}

double GptConfig::flops_per_token() const {
  const double h = hidden, s = sequence, V = vocabulary;
  return 6 * (layers * (matrix_elements_per_block() + s * h) + V * h);
}

}  // namespace lockstep
