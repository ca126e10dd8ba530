#pragma once

#include <string>
#include <utility>
#include <vector>

#include "viz/read/kineto/trace.h"

namespace lockstep::kineto {

/// Returns the names and sizes of a device mesh's axes, outermost first, from the process groups
/// that PyTorch describes as mesh_{axis}. Returns nothing
/// unless the product of the sizes is the number of ranks.
std::vector<std::pair<std::string, int>> mesh_of(const std::vector<Trace>& traces);

}  // namespace lockstep::kineto
