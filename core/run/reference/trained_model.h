#pragma once

#include <string>
#include <vector>

#include "core/model/data.h"
#include "core/run/options/options.h"
#include "core/run/results/rank_results.h"

namespace lockstep {

/// Throws UsageError if the checkpoint of --load can't be loaded into the run's model, or if
/// --export can't write it. Sets `trained_steps` (0 if the checkpoint has no optimizer state) and
/// `loaded_state`.
void check_files(Options& options);

/// Loads the trained parameters into a whole model, and returns one line that it generates: a text
/// or, with --tokens, the continuation of the first tokens of `corpus`. Throws RunError if the
/// parameters do not form a whole model.
std::string sample_of(const Options& options, const Corpus& corpus,
                      const std::vector<NamedValues>& parameters);

}  // namespace lockstep
