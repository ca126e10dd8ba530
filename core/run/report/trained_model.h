#pragma once

#include <string>
#include <vector>

#include "core/run/options/options.h"
#include "core/run/report/rank_results.h"

namespace lockstep {

/// Throws UsageError unless the checkpoint of --load can be loaded into the run's model. Sets
/// `trained_steps` (0 if the checkpoint has no optimizer state) and `loaded_state`. Also
/// verifies the contents of the files, except on a rank that this program started under mpirun: the
/// launching process has already verified them.
void check_checkpoint(Options& options);

/// Loads the trained parameters into a whole model, saves it if --save is given (with the
/// optimizer's moments if there are any), and returns one line of text that it generates. Throws
/// RunError if the parameters do not form a whole model.
std::string use_trained_model(const Options& options, const std::vector<NamedValues>& parameters,
                              const std::vector<NamedValues>& moments);

/// Whether --save names a folder, which can also hold the optimizer's state.
bool saves_moments(const Options& options);

}  // namespace lockstep
