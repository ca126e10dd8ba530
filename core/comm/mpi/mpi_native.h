#pragma once

#include <memory>
#include <vector>

#include "core/comm/mpi/mpi_lookout.h"
#include "core/comm/transport/native.h"

namespace lockstep {

/// Creates MPI's own collectives between `ranks` of the whole run, in that order. Collective over
/// `ranks`. `rank` is the calling rank; `tag` distinguishes groups that are created at the same
/// time. `lookout`, which must outlive the result, watches every call that waits inside MPI.
std::unique_ptr<NativeCollectives> mpi_collectives(const std::vector<int>& ranks, int rank, int tag,
                                                   MpiLookout& lookout);

}  // namespace lockstep
