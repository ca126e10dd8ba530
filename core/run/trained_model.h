#pragma once

#include <string>
#include <vector>

#include "core/run/options.h"
#include "core/run/results.h"

namespace lockstep {

/// Throws UsageError unless `path` can be loaded into a model of `config`.
void check_checkpoint(const std::string& path, const GptConfig& config);

/// Puts the trained parameters into a whole model, saves it where --save asks, and returns one line
/// that it generates.
std::string use_trained_model(const Options& options, const std::vector<NamedValues>& parameters);

}  // namespace lockstep
