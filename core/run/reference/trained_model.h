#pragma once

#include <string>
#include <vector>

#include "core/model/data.h"
#include "core/run/options/options.h"
#include "core/run/results/rank_results.h"

namespace lockstep {

/// Throws UsageError unless the checkpoint of --load can be loaded into the run's model. Sets
/// `trained_steps` (0 if the checkpoint has no optimizer state) and `loaded_state`. Also
/// verifies the contents of the files, except on a rank that this program started under mpirun: the
/// launching process has already verified them.
void check_checkpoint(Options& options);

/// Throws UsageError if the run's model is not a plain GPT-2 or Llama, which transformers can read.
void check_export(const Options& options);

/// Loads the trained parameters into a whole model, and returns one line that it generates: a text
/// or, with --tokens, the continuation of the first tokens of `corpus`. Throws RunError if the
/// parameters do not form a whole model.
std::string sample_of(const Options& options, const Corpus& corpus,
                      const std::vector<NamedValues>& parameters);

}  // namespace lockstep
