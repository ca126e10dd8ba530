#pragma once

#include <cstdint>
#include <string>

#include "core/model/gpt.h"

namespace lockstep {

struct SampleOptions {
  int tokens = 64;        ///< how many to add
  float temperature = 0;  ///< 0: always the likeliest (greedy)
  std::uint64_t seed = 0;
};

/// What the model says after `prompt` (at least one byte), without the prompt. Reads the last
/// `sequence` tokens at most, all of them again for each new one. Whole model, byte-level tokens;
/// the same seed gives the same text. Empty on the meta device.
std::string generate(Gpt& model, const std::string& prompt, const SampleOptions& options = {});

}  // namespace lockstep
