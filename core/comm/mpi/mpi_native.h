#pragma once

#include <memory>
#include <vector>

#include "core/comm/transport/native.h"

namespace lockstep {

/// MPI's own collectives between `ranks` of the run, in that order, which all of them ask for at
/// once; `tag` tells apart groups that are made at the same time. For the one who calls, `rank`.
std::unique_ptr<NativeCollectives> mpi_collectives(const std::vector<int>& ranks, int rank,
                                                   int tag);

}  // namespace lockstep
