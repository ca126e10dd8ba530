#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/model/gpt.h"

namespace lockstep {

struct SampleOptions {
  int tokens = 64;        ///< number of tokens to generate
  float temperature = 0;  ///< 0: always the most likely token (greedy)
  std::uint64_t seed = 0;
};

/// Returns the model's continuation of `prompt` (at least one token), without the prompt. Each new
/// token is computed from the last `sequence` tokens at most, without a cache. Needs a whole model;
/// the same seed gives the same tokens. Returns nothing on the meta device.
std::vector<std::int32_t> generate(Gpt& model, const std::vector<std::int32_t>& prompt,
                                   const SampleOptions& options = {});
/// Does the same for a model of byte-level tokens.
std::string generate(Gpt& model, const std::string& prompt, const SampleOptions& options = {});

}  // namespace lockstep
