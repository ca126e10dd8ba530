#pragma once

#include <string>

#include "core/run/options/options.h"

namespace lockstep {

/// Returns the training configuration as a JSON object: the model, the batch, the optimizer and the
/// lesson's own flags. Both the report and the trace contain it, so that runs can be compared.
std::string config_json(const Options& options);

/// Returns how a run is carried out, as the keys of report.json from `ranks` to `config`
/// (RunResults::facts). `pipeline`: the run has stages, so the configuration says how they are
/// split.
std::string facts_json(const Options& options, bool pipeline);

}  // namespace lockstep
