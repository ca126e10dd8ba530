#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/flight_recorder/job.h"

namespace lockstep::flight {

/// Returns the axis that a group's description names: "tp" for "mesh_tp", as torch calls the groups
/// of a device mesh.
std::string axis_of(const std::string& description);

/// Returns the positions of ranks on the mesh: for each axis, an index. An axis is a description,
/// such as "mesh_tp" or "tp", that belongs to several groups of the same size, which together have
/// every rank once. The rank's index is its rank in its group.
std::map<int, std::vector<std::pair<std::string, int>>> places_of(const ProcessGroups& groups);

}  // namespace lockstep::flight
