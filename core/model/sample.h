#pragma once

#include <cstdint>
#include <string>

#include "core/model/gpt.h"

namespace lockstep {

struct SampleOptions {
  int tokens = 64;        ///< number of tokens to generate
  float temperature = 0;  ///< 0: always the most likely token (greedy)
  std::uint64_t seed = 0;
};

/// Returns the model's continuation of `prompt` (at least one byte), without the prompt. Each new
/// token is computed from the last `sequence` tokens at most, without a cache. Requires a whole
/// model and byte-level tokens. The same seed gives the same text. Returns "" on the meta device.
std::string generate(Gpt& model, const std::string& prompt, const SampleOptions& options = {});

}  // namespace lockstep
