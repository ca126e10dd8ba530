#pragma once

#include <string>
#include <vector>

#include "core/run/options/options.h"
#include "core/run/report/rank_results.h"

namespace lockstep {

/// The number of steps that the checkpoint was trained for; 0 if it has no optimizer state. Throws
/// UsageError unless the checkpoint can be loaded into the plan's model.
int check_checkpoint(const std::string& path, const Plan& plan);

/// Loads the trained parameters into a whole model, saves it if --save is given (with the
/// optimizer's moments if there are any), and returns one line of text that it generates. Throws
/// RunError if the parameters do not form a whole model.
std::string use_trained_model(const Options& options, const std::vector<NamedValues>& parameters,
                              const std::vector<NamedValues>& moments);

/// Whether --save names a folder, which can also hold the optimizer's state.
bool saves_moments(const Options& options);

}  // namespace lockstep
