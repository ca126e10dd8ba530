#pragma once

#include <string>
#include <vector>

#include "core/run/options/options.h"
#include "core/run/report/results.h"

namespace lockstep {

/// How many steps the checkpoint has behind it; 0 where it is a model without an optimizer. Throws
/// UsageError unless it can be loaded into the plan's model.
int check_checkpoint(const std::string& path, const Plan& plan);

/// Puts the trained parameters into a whole model, saves it where --save asks, with the optimizer's
/// moments where they are given, and returns one line that it generates. Throws RunError where the
/// parameters are not a whole model.
std::string use_trained_model(const Options& options, const std::vector<NamedValues>& parameters,
                              const std::vector<NamedValues>& moments);

/// Whether --save names a folder, which has room for what the optimizer knows.
bool saves_moments(const Options& options);

}  // namespace lockstep
