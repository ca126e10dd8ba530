#pragma once

#include <string>

#include "core/run/options/options.h"

namespace lockstep {

/// Lists the resources that ./lockstep provides before it starts a run, and the facts that it
/// prints about the run. One "NAME VALUE" per line:
///
///   ranks 4, microbatches 8   the first of several
///   viewer 127.0.0.1:7077     the run streams to a viewer at this address of this machine
///   viewer elsewhere          or of another one
///   gpu here                  the run needs the GPU library, and a GPU of this machine
///   gpu elsewhere             or of other hosts
std::string needs_of(const Options& options);

}  // namespace lockstep
